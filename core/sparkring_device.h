/* SPDX-License-Identifier: Apache-2.0
 *
 * Collectives on the memory of GPUs: by NCCL, or through the memory of the host where NCCL cannot.
 * sparkring.h includes this file.
 */
#ifndef SPARKRING_DEVICE_H
#define SPARKRING_DEVICE_H

#ifndef SPARKRING_H
#error "include sparkring.h, which includes this file"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* A device is one GPU of each rank. It has a communicator of its own. NCCL, CUDA's driver and NVRTC are loaded at run
 * time. A device serves one call at a time; a second call meanwhile returns RING_BUSY. wait, test, abort, error
 * and explain may be called from any thread at any time; free may not run beside another call. In a forked child
 * only ring_device_free works.
 *
 * A thread of each device watches the calls that a GPU runs. When a rank is lost or fails, or a call does not end
 * within the call timeout of the communicator, the thread ends the work of NCCL on the GPU: a stream that waits
 * for it goes on, with undefined outputs. Then every later call, ring_device_wait and ring_device_test return the
 * error, which names the rank. So ring_device_wait is the way to learn that outputs are valid. A call that fails
 * returns when NCCL uses its memory no more, or 5 seconds later.
 *
 * NCCL neither authenticates nor encrypts its traffic. Between hosts of a communicator that encrypts,
 * RING_DEVICE_AUTO takes the host; RING_DEVICE_NCCL lets NCCL send in plain. */
typedef struct ring_device ring_device;

/* How calls are carried out. */
typedef enum ring_device_path {
  RING_DEVICE_AUTO =
      0, /* NCCL where every rank can and no traffic is to be encrypted, else the host */
  RING_DEVICE_NCCL = 1,
  RING_DEVICE_HOST = 2 /* through page-locked memory and the communicator */
} ring_device_path;

/* Begin with RING_DEVICE_OPTIONS_INIT. All ranks pass the same path.
 * nccl, cuda, nvrtc: names for dlopen() with colons between them, until one loads. NULL: libnccl.so.2, then libnccl.so;
 * libcuda.so.1; and the newest libnvrtc that is no newer than the driver. NCCL has to be 2.23 or newer, and the same on
 * all ranks. NVRTC compiles the kernels that pack and convert; where a rank lacks it, the device works without them. */
typedef struct ring_device_options {
  size_t struct_size;
  const char *nccl;
  const char *cuda;
  const char *nvrtc;
  ring_device_path path;
  int gpu; /* its number; -1: that of the calling thread's CUDA context, else by the rank on its host */
} ring_device_options;

#ifdef __cplusplus
static inline ring_device_options ring_device_options_init(void) {
  ring_device_options options = ring_device_options();
  options.struct_size = sizeof options;
  options.gpu = -1;
  return options;
}
#define RING_DEVICE_OPTIONS_INIT ring_device_options_init()
#else
#define RING_DEVICE_OPTIONS_INIT {.struct_size = sizeof(ring_device_options), .gpu = -1}
#endif

/* ---- Life ---------------------------------------------------------------------------------- */

/* Opens a device between all ranks of `comm`, whose options and hooks it inherits. Collective. `options` may be
 * NULL. On failure *device is NULL and ring_comm_error(comm) explains: RING_UNSUPPORTED where a rank has no CUDA
 * driver or no GPU, has made another context than the primary one of the GPU current, or lacks NCCL and the path is
 * RING_DEVICE_NCCL. Where RING_DEVICE_AUTO takes the host because a rank lacks NCCL, rank 0 reports that to the
 * communicator's log hook. */
RING_API ring_status ring_device_open(ring_comm *comm, const ring_device_options *options,
                                      ring_device **device);

/* Waits for this rank's calls, then until every rank has called close, and releases the GPU. Collective. RING_SYSTEM
 * where the GPU or NCCL does not end: memory of the device then stays until the process ends. */
RING_API ring_status ring_device_close(ring_device *device);

/* Ends the device from this rank alone: calls of all ranks fail with RING_ABORTED and `reason` (may be NULL). */
RING_API void ring_device_abort(ring_device *device, const char *reason);

/* Frees the device (or NULL); an open one is aborted first. It waits for the GPU and NCCL for 10 seconds each. Where
 * they do not end, memory of the device stays until the process ends, and the communicator's log hook gets a
 * warning. */
RING_API void ring_device_free(ring_device *device);

/* Why the last call of this thread on a device that has failed did so; status RING_OK when none has. Valid until the
 * next failure. */
RING_API const ring_error *ring_device_error(const ring_device *device);

/* How the device carries out its calls, and why. Texts live as long as the device. */
typedef struct ring_device_explanation {
  ring_device_path path; /* RING_DEVICE_NCCL or RING_DEVICE_HOST */
  const char *reason;    /* why not NCCL; "" with NCCL */
  int gpu;
  const char *gpu_name;
  int nccl_version; /* 22803 for 2.28.3; 0 where NCCL is not used */
  int cuda_version; /* of the driver: 13000 for 13.0 */
  int page_locked; /* 1: the host's memory is; 0: it is not; -1: nothing went through the host yet */
  uint64_t calls;  /* collectives since the open */
  uint64_t launches; /* of kernels since the open */
  char text[1024];   /* all of this in words */
} ring_device_explanation;

RING_API ring_status ring_device_explain(ring_device *device, ring_device_explanation *explanation);

/* ---- Calls of a communicator ---------------------------------------------------------------- */

/* Places the buffers of the next collective on `comm` in memory of the GPU of `device`, which was opened on `comm`, for
 * work in the order of `stream`, a CUstream or cudaStream_t (NULL: the default stream). The call is then one of the
 * device, with the arguments of any call on `comm`: allreduce, reduce, broadcast, allgather, reduce_scatter, alltoall,
 * alltoallv, send, recv, groups; factors (ring_comm_scale) of allreduce and its group. Other calls return
 * RING_UNSUPPORTED. A failure breaks the device, not `comm`, whose ring_comm_error() explains. A request is complete when
 * its work is on the stream. The next call on `comm` uses the place up.
 *
 * Every rank makes the same calls in the same order, and the calls of a device use streams whose work can run in that
 * order. So do the calls of a device and those of other communicators of NCCL on the same GPU, such as PyTorch's. Only
 * the two ranks of a message call, at the same place in the order of their calls. A send may wait for the receive, on
 * the stream or in the call.
 *
 * RING_UNSUPPORTED on a stream that captures a graph. RING_INVALID on the default stream of a thread (0x2), which is
 * another stream in the threads of NCCL, and for memory of another GPU or that is not aligned to its elements. These
 * errors are local: nothing was issued.
 *
 * With NCCL a call returns when its work is on the stream. The first call of each kind may wait for the call of the
 * other ranks, for NCCL connects them then. NCCL rounds each addition of halves, so sums of float16
 * and bfloat16 are not those of ring_allreduce; nor does NCCL keep NaN in MIN and MAX. These go through the host
 * even where NCCL works: reductions of bool, int16, uint16 and, but for SUM and AVG, complex dtypes; logical and
 * bitwise ops; AVG of integers.
 *
 * Through the host a call returns when the communicator has moved everything: copies back to the GPU may still be
 * on the stream. */
RING_API void ring_comm_on_device(ring_comm *comm, ring_device *device, void *stream);

/* ---- Waiting -------------------------------------------------------------------------------- */

/* Returns when the work that is on the stream is done, or the device has failed. Only calls of the device are watched:
 * there is no deadline for other kernels on the stream. RING_UNSUPPORTED on a stream that captures a graph, as
 * ring_device_test. */
RING_API ring_status ring_device_wait(ring_device *device, void *stream);

/* Sets *done to 1 when the work on the stream is done, else to 0, without waiting. */
RING_API ring_status ring_device_test(ring_device *device, void *stream, int *done);

/* ---- Fusion --------------------------------------------------------------------------------- */

/* One allreduce of each buffer, of which short ones travel together. The elements of `dtype` travel
 * as `wire`, multiplied by `prescale` before and by `postscale` after. dtype and wire are the same, or float32
 * and a half; factors other than 1 need a half, float32 or float64. Inputs are not modified. In place: a buffer's output
 * is its input. NCCL multiplies each input by both factors at once in sums and averages, of halves where the factor is
 * exact in the half; kernels do the rest. Memory of the GPU for it, 64 MiB at most, grows with the longest call. Where
 * a rank cannot compile the kernels, NCCL gets the buffers as a group, and what is converted goes through the host. */
RING_API ring_status ring_device_allreduce_group(ring_device *device, const ring_buffer *buffers,
                                                 size_t buffer_count, ring_dtype dtype,
                                                 ring_dtype wire, ring_op op, double prescale,
                                                 double postscale, void *stream);

/* Converts elements and multiplies them by `scale`: float32 to float16, bfloat16 or float32, and back. Not
 * collective. The memory does not overlap, unless the dtypes are the same and output is input. Where a rank cannot
 * compile the kernels, the elements go through the host. */
RING_API ring_status ring_device_cast(ring_device *device, const void *input, ring_dtype dtype,
                                      void *output, ring_dtype output_dtype, size_t count,
                                      double scale, void *stream);

/* ---- Memory --------------------------------------------------------------------------------- */

/* Memory of the GPU, as for a result. It outlives its device; any thread may free it. */
typedef struct ring_device_memory ring_device_memory;

/* At least one byte. On failure *memory is NULL: RING_NO_MEMORY where the GPU has too little. */
RING_API ring_status ring_device_memory_alloc(ring_device *device, size_t bytes,
                                              ring_device_memory **memory);

RING_API void *ring_device_memory_address(const ring_device_memory *memory);

/* Frees the memory (or NULL). Waits for work of the GPU. In a forked child it only forgets the memory. */
RING_API void ring_device_memory_free(ring_device_memory *memory);

#ifdef __cplusplus
}
#endif

#endif
