/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels that copy many runs of elements in one launch, and convert and multiply them on the way. NVRTC compiles them
 * when a device is opened. Functions return what CUDA does; they are called between enter and leave.
 */
#ifndef RING_DEVICE_KERNELS_H
#define RING_DEVICE_KERNELS_H

#include "device/device_state.h"
#include "device/kernels_source.h"

#define RING_KERNELS_MOST_BYTES ((size_t)64 << 20)

RING_KERNEL_TYPES

/* Runs that one kernel takes. Begin with ring_kernels_begin. */
typedef struct ring_kernel_batch {
  int kernel;
  bool copies;  /* bytes */
  size_t width; /* of a run's element, where the batch copies */
  float scale;
  ring_kernel_runs runs;
} ring_kernel_batch;

/* Whether a kernel converts one dtype to the other and multiplies; dtypes that are the same are only copied where the
 * factor is 1. */
bool ring_kernels_convert(ring_dtype from, ring_dtype to, double scale);

/* The text of the kernels, for NVRTC. The caller frees it; NULL without memory. */
char *ring_kernels_text(void);

/* Compiles the kernels with NVRTC (`libraries` as for ring_nvrtc_load), loads them and gets the first memory, when the
 * device is opened. Else `problem` has the reason. */
void ring_kernels_open(ring_device *device, const char *libraries, char *problem, size_t size);

/* Begins a batch of conversions that ring_kernels_convert allows. */
void ring_kernels_begin(ring_kernel_batch *batch, ring_dtype from, ring_dtype to, double scale);

/* Adds a run; launches the batch first where it is full. */
ring_cuda_result ring_kernels_add(ring_device *device, ring_kernel_batch *batch, const void *from,
                                  void *to, size_t count, ring_cuda_stream stream);

/* Launches what was added, if anything. */
ring_cuda_result ring_kernels_launch(ring_device *device, ring_kernel_batch *batch,
                                     ring_cuda_stream stream);

/* Memory of the GPU of at least so many bytes, RING_KERNELS_MOST_BYTES at most, for one user at a time: work on the
 * stream waits for the user before.
 * ring_kernels_release ends the use. */
ring_cuda_result ring_kernels_acquire(ring_device *device, size_t bytes, ring_cuda_stream stream);
ring_cuda_result ring_kernels_release(ring_device *device, ring_cuda_stream stream);

void ring_kernels_free(ring_device *device);

#endif
