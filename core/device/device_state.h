/* SPDX-License-Identifier: Apache-2.0
 *
 * The state of a device: its communicator, CUDA, NCCL, the calls that the GPU runs, and how it has failed.
 *
 * Threads. `busy` belongs to the thread that makes a call. The mutex guards the pending calls, the signatures and the
 * failure; no thread holds it while it calls NCCL or CUDA. `nccl_mutex` guards the use of `nccl_comm`. The hub belongs
 * to the thread that opens the device, then to the watch thread. `users` counts the threads in wait, test, abort,
 * explain and the allocation of memory, for which close waits. Errors are returned to each thread apart
 * (ring_device_reason).
 */
#ifndef RING_DEVICE_DEVICE_STATE_H
#define RING_DEVICE_DEVICE_STATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "api/comm_lifecycle.h"
#include "api/comm_state.h"
#include "base/call.h"
#include "device/cuda_api.h"
#include "device/detached.h"
#include "device/nccl_api.h"
#include "hub/hub.h"

/* A call whose work is on a stream, or is being put there. */
typedef struct ring_pending {
  ring_call call;
  int peer;       /* of a send or a receive; -1: a collective */
  uint64_t begun; /* by ring_platform_now() */
  ring_cuda_event event;
  bool recorded;
} ring_pending;

/* The pending calls, oldest first: a ring buffer, whose entries keep their events. */
typedef struct ring_pending_list {
  ring_pending *calls;
  size_t capacity, first, count;
  uint64_t moved; /* when one has ended */
} ring_pending_list;

/* A control message of the hub. */
enum { RING_DEVICE_MESSAGE_BYTES = 40 };

typedef struct ring_device_answer {
  bool given;
  ring_call call;
} ring_device_answer;

/* Control messages with rank 0. The receive of the star fails when a rank is lost. */
typedef struct ring_device_hub {
  ring_messages *messages; /* NULL: closed */
  ring_hub control;
  bool nccl_refused; /* a rank cannot use NCCL: no rank shall wait for its init */
  bool late;         /* a call is late, and a decision is to come */
  ring_wait wait;    /* for the decision */
  ring_call late_call;
  int late_rank;
  double late_seconds;
  ring_device_answer *answers; /* on rank 0, of each rank */
} ring_device_hub;

/* The host's memory through which calls go: slots that take turns. */
enum { RING_PINNED_SLOTS = 3 };
#define RING_PINNED_BYTES ((size_t)4 << 20) /* of each half of a slot */
typedef struct ring_pinned_slot {
  uint8_t *input, *output;
  ring_cuda_event down, up; /* the last copy from the GPU, and to it */
} ring_pinned_slot;

typedef struct ring_pinned {
  bool ready;
  atomic_int page_locked; /* 1: it is, -1: it cannot be, 0: there is no memory yet */
  void *memory;
  void *locked; /* the pages of `memory` that are registered */
  ring_pinned_slot slots[RING_PINNED_SLOTS];
  ring_cuda_stream down, up;
  ring_cuda_event begin, end; /* of the user's stream; of `up` */
  int turn;                   /* of the next slot */
} ring_pinned;

/* Kernels, and the memory in which short buffers travel together. */
enum { RING_KERNEL_COUNT = 8, RING_KERNELS_OUTGROWN = 8 };
typedef struct ring_kernels {
  char lacking[400]; /* why no rank uses them: a rank that cannot; "": all can */
  ring_cuda_module module;
  ring_cuda_function functions[RING_KERNEL_COUNT];
  unsigned blocks; /* of a large launch */
  ring_cuda_memory fused;
  size_t capacity;
  ring_cuda_memory outgrown[RING_KERNELS_OUTGROWN]; /* shorter than `fused`, to be freed in close */
  int outgrown_count;
  ring_cuda_event used; /* after the last use of `fused` */
  atomic_ullong launches;
} ring_kernels;

/* Signatures of the last collectives, by their sequence. */
enum { RING_DEVICE_CALLS = 256 };

/* The subject of an error that CUDA reports of a kernel, perhaps of another library. */
#define RING_DEVICE_GPU_WORK "work of this process on the GPU"

/* Seconds that a failing call waits for NCCL's work to end, and that close and free wait. */
#define RING_DEVICE_RELEASE_SECONDS 5
#define RING_DEVICE_FREE_SECONDS 10

struct ring_device {
  unsigned process; /* a forked child has another one */
  atomic_flag busy;
  atomic_int users;
  atomic_bool closed, failed;
  atomic_bool closing; /* this rank's calls have ended: peers may end their messages from now on */
  ring_detached abort; /* of NCCL: streams go on when it has ended */
  ring_detached release; /* of the GPU */
  ring_comm *comm;
  int rank, size;
  double call_timeout;
  ring_interrupt_fn interrupt; /* the user's */
  void *interrupt_arg;
  ring_device_path path;
  char reason[512]; /* why not NCCL */
  ring_cuda cuda;
  ring_cuda_gpu gpu;
  ring_cuda_context context;           /* the primary one */
  ring_cuda_capture_mode capture_mode; /* of the thread that makes a call */
  char gpu_name[96];
  int cuda_version, nccl_version;
  ring_nccl nccl;
  pthread_mutex_t nccl_mutex;
  ring_nccl_comm nccl_comm; /* NULL: closed, or to be ended */
  ring_nccl_comm nccl_made; /* NCCL's init writes here, from a thread of its own, too */
  bool nccl_finalized;
  uint64_t nccl_failed; /* since when NCCL reports an error, to the watch thread; 0: it does not */
  pthread_mutex_t mutex;
  pthread_cond_t
      stopped; /* the watch waits for its period or `stops`, which wakes it with the mutex */
  pthread_t watch;
  bool watched, stops;
  ring_error failure; /* once `failed` */
  uint32_t sequence;  /* of the last collective */
  ring_call calls[RING_DEVICE_CALLS];
  ring_pending_list pending;
  ring_device_hub hub;
  ring_pinned pinned;
  ring_kernels kernels;
};

static inline const char *device_host(const ring_device *device, int rank) {
  return ring_comm_name(device->comm, rank);
}

/* Why the last call of this thread on a device has failed. */
ring_error *ring_device_reason(void);

/* Sets it to RING_INVALID, and returns that. */
ring_status ring_device_invalid(const ring_device *device, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Seconds that ranks have to answer which rank keeps a call: the call timeout, from 1 to 5. */
static inline double device_answer_seconds(const ring_device *device) {
  return device->call_timeout < 1 ? 1 : device->call_timeout < 5 ? device->call_timeout : 5;
}

/* RING_OK where this process may use the device and it has not failed. */
ring_status ring_device_check(ring_device *device);

/* Checks, and counts this thread as a user. ring_device_unuse follows unless `device` is NULL or of another process. */
ring_status ring_device_use(ring_device *device);
void ring_device_unuse(ring_device *device);

/* Checks, and makes this thread the only one that calls, in the context of the GPU, until it leaves. A call that fails
 * with the device leaves when NCCL has let go of the memory, or some seconds later. */
ring_status ring_device_enter(ring_device *device);
ring_status ring_device_leave(ring_device *device, ring_status status);

/* Makes the context of the GPU this thread's, or restores the one before. Between the two another thread's capture of
 * a stream does not forbid calls of CUDA. Pop only after a push that succeeded. */
ring_cuda_result ring_device_push(const ring_device *device, ring_cuda_capture_mode *before);
void ring_device_pop(const ring_device *device, ring_cuda_capture_mode before);

/* RING_UNSUPPORTED for a stream that captures a graph, RING_INVALID for one that is none. */
ring_status ring_device_check_stream(const ring_device *device, ring_cuda_stream stream,
                                     const char *call);

/* The same of the stream of a call, and RING_INVALID for the default stream of a thread, which is another one in the
 * threads of NCCL. */
ring_status ring_device_check_call(const ring_device *device, ring_cuda_stream stream,
                                   const char *call);

/* RING_INVALID for memory of another GPU than the device's, or that is not aligned to its elements. */
ring_status ring_device_check_pointer(const ring_device *device, const void *memory,
                                      ring_dtype dtype, const char *call);

/* The device has failed with this error, unless it has failed before. Returns the status of its failure, which
 * becomes this thread's reason. */
ring_status ring_device_set_failure(ring_device *device, const ring_error *error);

/* On a device that has failed: waits until NCCL's work has ended, so that streams go on, or some seconds. */
void ring_device_await_release(ring_device *device);

/* Waits for something on the GPU: begins with {.seconds = its deadline, 0: none}. A short while it spins, then it
 * sleeps. The failure of the device ends it, the interrupt hook and the end of the parent process with RING_ABORTED,
 * the deadline with RING_TIMEOUT. */
typedef struct ring_device_pause {
  double seconds;
  unsigned tries;
  ring_wait wait;
} ring_device_pause;
ring_status ring_device_pause_once(ring_device *device, ring_device_pause *pause, const char *call);

/* Begins a wait with the hooks of the device's user. */
void ring_device_begin_wait(const ring_device *device, double seconds, ring_wait *wait);

#endif
