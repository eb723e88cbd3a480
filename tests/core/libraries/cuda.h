/* SPDX-License-Identifier: Apache-2.0
 *
 * What the stub of CUDA has beside CUDA's functions, for tests and for the stub of NCCL.
 */
#ifndef RING_LIBRARIES_CUDA_H
#define RING_LIBRARIES_CUDA_H

#include <stdbool.h>

#include "device/cuda_api.h"

/* The first line of a module that the driver takes: machine code for its GPU, of compute capability 9.0, or PTX for this
 * or an older one. libraries/nvrtc.c makes them. */
#define STUB_CUDA_CUBIN "machine code for sm_90\n"
#define STUB_CUDA_PTX "PTX for compute_80\n"

/* Memory of the GPU as the host can use it. */
void *stub_cuda_host(const void *memory);

/* Calls a function in the order of the stream. CUDA has the same. */
typedef void (*stub_cuda_function)(void *arg);
ring_cuda_result cuLaunchHostFunc(ring_cuda_stream stream, stub_cuda_function function, void *arg);

/* The stream captures from now on, or no longer. */
void stub_cuda_capture(ring_cuda_stream stream, int captures);

/* Makes a context this thread's that is not the primary one of the GPU. */
void stub_cuda_use_foreign(int gpu);

/* How many streams, events, allocations, registrations, modules and retained contexts there are. */
int stub_cuda_live(void);

/* For the parts of the stub: counts what is live, whether CUDA_STUB_FAILS has a word, whether this thread has a
 * context, and whether it may make calls that would disturb a capture. */
void stub_cuda_count(int change);
int stub_cuda_fails(const char *what);
int stub_cuda_has_context(void);
int stub_cuda_may_disturb(void);

/* Waits until all streams rest. */
void stub_cuda_rest(void);

/* Results of CUDA. */
enum {
  STUB_CUDA_INVALID_VALUE = 1,
  STUB_CUDA_OUT_OF_MEMORY = 2,
  STUB_CUDA_NO_GPU = 100,
  STUB_CUDA_INVALID_GPU = 101,
  STUB_CUDA_INVALID_CONTEXT = 201,
  STUB_CUDA_LAUNCH_FAILED = 719,
  STUB_CUDA_NOT_SUPPORTED = 801,
  STUB_CUDA_CAPTURE_UNSUPPORTED = 900
};

#define NEED_CONTEXT                                                                               \
  if (!stub_cuda_has_context()) return STUB_CUDA_INVALID_CONTEXT

/* For calls that a capture forbids. */
#define NEED_NO_CAPTURE                                                                            \
  if (!stub_cuda_may_disturb()) return STUB_CUDA_CAPTURE_UNSUPPORTED

#endif
