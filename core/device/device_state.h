/* SPDX-License-Identifier: Apache-2.0
 *
 * The state of a device: its communicator, CUDA, NCCL, the calls that the GPU runs, and how it has failed.
 *
 * Threads. `busy` belongs to the thread that makes a call. The mutex guards the pending calls, the failure and
 * the use of `nccl_comm`. The hub belongs to the thread that opens the device, then to the watch thread. Errors
 * are returned to each thread apart (ring_device_reason).
 */
#ifndef RING_DEVICE_DEVICE_STATE_H
#define RING_DEVICE_DEVICE_STATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "api/comm_state.h"
#include "base/call.h"
#include "device/cuda_api.h"
#include "device/nccl_api.h"

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

/* What a rank tells another one, as bytes. */
enum { RING_HUB_NOTE_BYTES = 40 };

/* Messages with rank 0, a receive of which is always posted: it fails when a rank is lost. */
typedef struct ring_device_hub {
  ring_messages *messages; /* NULL: closed */
  ring_transfer *receive;
  uint8_t note[RING_HUB_NOTE_BYTES];
  bool gives_up; /* a rank cannot use NCCL: no rank shall wait for its init */
  bool late;     /* a call is late, and a verdict is to come */
  uint64_t due;  /* when the verdict is */
  ring_call late_call;
  int late_rank;
  double late_seconds;
  ring_call *answers; /* on rank 0, of each rank; sequence UINT32_MAX: none yet */
} ring_device_hub;

/* The host's memory through which calls go: slots that take turns. */
enum { RING_PINNED_SLOTS = 3 };
#define RING_PINNED_BYTES ((size_t)4 << 20) /* of each half of a slot */
typedef struct ring_pinned_slot {
  uint8_t *input, *output;
  ring_cuda_event down, up; /* the last copy from the GPU, and to it */
} ring_pinned_slot;

typedef struct ring_pinned {
  bool ready, page_locked;
  void *memory;
  void *locked; /* the pages of `memory` that are registered */
  ring_pinned_slot slots[RING_PINNED_SLOTS];
  ring_cuda_stream down, up;
  ring_cuda_event begin, end; /* of the user's stream; of `up` */
  unsigned turn;              /* of the next slot */
} ring_pinned;

/* Kernels, and the memory in which short buffers travel together. */
enum { RING_KERNEL_COUNT = 8 };
typedef struct ring_kernels {
  ring_cuda_module module;
  ring_cuda_function functions[RING_KERNEL_COUNT];
  unsigned blocks; /* of a large launch */
  ring_cuda_memory fused;
  size_t capacity;
  ring_cuda_event used; /* after the last use of `fused` */
  atomic_ullong launches;
} ring_kernels;

struct ring_device {
  unsigned process; /* a forked child has another one */
  atomic_flag busy;
  atomic_bool closed, failed;
  atomic_bool released; /* after a failure: NCCL is aborted, so streams go on */
  ring_comm *comm;
  int rank, size;
  double call_timeout;
  ring_interrupt_fn interrupt; /* the user's */
  void *interrupt_arg;
  ring_device_path path;
  char reason[512]; /* why not NCCL */
  ring_cuda cuda;
  ring_cuda_gpu gpu;
  ring_cuda_context context;
  bool retained; /* the primary context, here */
  char gpu_name[96];
  int cuda_version, nccl_version;
  ring_nccl nccl;
  ring_nccl_comm nccl_comm;
  pthread_mutex_t mutex;
  pthread_cond_t stopped;
  pthread_t watch;
  bool watched, stops;
  ring_error failure;   /* once `failed` */
  uint64_t nccl_failed; /* since when NCCL reports an error; 0: it does not */
  uint32_t sequence;    /* of the last collective */
  ring_pending_list pending;
  ring_device_hub hub;
  ring_pinned pinned;
  ring_kernels kernels;
};

static inline const char *device_host(const ring_device *device, int rank) {
  return ring_comm_host(device->comm, rank);
}

/* Why the last call of this thread on a device has failed. */
ring_error *ring_device_reason(void);

/* Sets it to RING_INVALID, and returns that. */
ring_status ring_device_invalid(const ring_device *device, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* RING_OK where this process may use the device and it has not failed. */
ring_status ring_device_check(ring_device *device);

/* Checks, and makes this thread the only one that calls, in the context of the GPU, until it leaves. */
ring_status ring_device_enter(ring_device *device);
ring_status ring_device_leave(ring_device *device, ring_status status);

/* Makes the context of the GPU this thread's, or restores the one before. */
ring_cuda_result ring_device_push(const ring_device *device);
void ring_device_pop(const ring_device *device);

/* Whether the stream captures a graph, so that nothing runs now. */
bool ring_device_captures(const ring_device *device, ring_cuda_stream stream);

/* The device has failed with this error, unless it has failed before. Returns the status of its failure, which
 * becomes this thread's reason. */
ring_status ring_device_set_failure(ring_device *device, const ring_error *error);

/* Waits for something on the GPU: begins with {.seconds = its deadline, 0: none}. A short while it spins, then it
 * sleeps. The failure of the device ends it, the interrupt hook with RING_ABORTED, the deadline with
 * RING_TIMEOUT. */
typedef struct ring_device_pause {
  double seconds;
  unsigned tries;
  ring_wait wait;
} ring_device_pause;
ring_status ring_device_rest(ring_device *device, ring_device_pause *pause, const char *what);

#endif
