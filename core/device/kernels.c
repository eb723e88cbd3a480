/* SPDX-License-Identifier: Apache-2.0 */
#include "device/kernels.h"

#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "device/fuse_ptx.h"

#define KERNELS_BLOCKS_EACH 8 /* of a multiprocessor */
#define KERNELS_LEAST_BYTES ((size_t)1 << 20)

/* Each is twice as long as the one before. */
_Static_assert(KERNELS_LEAST_BYTES << RING_KERNELS_OUTGROWN >= RING_KERNELS_MOST_BYTES, "outgrown");

typedef enum kernels_index {
#define KERNELS_INDEX(name, from, to, width, piece, widen, narrow) KERNELS_##name,
  RING_FUSE_MAP(KERNELS_INDEX)
#undef KERNELS_INDEX
} kernels_index;

typedef struct kernels_row {
  const char *name;
  unsigned piece;
} kernels_row;

static const kernels_row kernels_rows[RING_KERNEL_COUNT] = {
#define KERNELS_ROW(name, from, to, width, piece, widen, narrow) {"ring_fuse_" #name, piece},
    RING_FUSE_MAP(KERNELS_ROW)
#undef KERNELS_ROW
};

/* ---- Choosing ------------------------------------------------------------------------------ */

/* -1: none. */
static int kernels_find(ring_dtype from, ring_dtype to, double scale) {
  if (from == to && scale == 1) return KERNELS_copy;
  if (from == RING_FLOAT32 && to == RING_FLOAT32) return KERNELS_f32_f32;
  if (from == RING_FLOAT32 && to == RING_FLOAT16) return KERNELS_f32_f16;
  if (from == RING_FLOAT32 && to == RING_BFLOAT16) return KERNELS_f32_bf16;
  if (from == RING_FLOAT16 && to == RING_FLOAT32) return KERNELS_f16_f32;
  if (from == RING_BFLOAT16 && to == RING_FLOAT32) return KERNELS_bf16_f32;
  if (from == RING_FLOAT16 && to == RING_FLOAT16) return KERNELS_f16_f16;
  if (from == RING_BFLOAT16 && to == RING_BFLOAT16) return KERNELS_bf16_bf16;
  return -1;
}

bool ring_kernels_convert(ring_dtype from, ring_dtype to, double scale) {
  return ring_dtype_size(from) > 0 && kernels_find(from, to, scale) >= 0;
}

/* ---- Loading ------------------------------------------------------------------------------- */

/* The text as one string; NULL without memory. */
static char *kernels_text(void) {
  size_t bytes = 1, lines = sizeof kernels_ptx / sizeof kernels_ptx[0];
  for (size_t i = 0; i < lines; i++) bytes += strlen(kernels_ptx[i]);
  char *text = malloc(bytes), *to = text;
  for (size_t i = 0; text != NULL && i < lines; i++) {
    size_t length = strlen(kernels_ptx[i]);
    memcpy(to, kernels_ptx[i], length + 1);
    to += length;
  }
  return text;
}

static ring_cuda_result kernels_load_module(ring_device *device) {
  const ring_cuda *cuda = &device->cuda;
  ring_kernels *kernels = &device->kernels;
  char *text = kernels_text();
  if (text == NULL) return RING_CUDA_NO_MEMORY;
  ring_cuda_result result = cuda->module_load(&kernels->module, text);
  free(text);
  if (result != RING_CUDA_SUCCESS) kernels->module = NULL;
  for (int i = 0; i < RING_KERNEL_COUNT && result == RING_CUDA_SUCCESS; i++)
    result = cuda->module_function(&kernels->functions[i], kernels->module, kernels_rows[i].name);
  return result;
}

/* The first memory, which the next user has after the event. */
static ring_cuda_result kernels_get_memory(ring_device *device) {
  const ring_cuda *cuda = &device->cuda;
  ring_cuda_stream stream;
  ring_cuda_result result = cuda->stream_create(&stream, RING_CUDA_STREAM_NON_BLOCKING);
  if (result != RING_CUDA_SUCCESS) return result;
  result = ring_kernels_acquire(device, KERNELS_LEAST_BYTES, stream);
  if (result == RING_CUDA_SUCCESS) result = ring_kernels_release(device, stream);
  cuda->stream_destroy(stream);
  return result;
}

ring_cuda_result ring_kernels_load(ring_device *device) {
  const ring_cuda *cuda = &device->cuda;
  ring_kernels *kernels = &device->kernels;
  int processors = 0;
  ring_cuda_result result =
      cuda->gpu_attribute(&processors, RING_CUDA_MULTIPROCESSOR_COUNT, device->gpu);
  kernels->blocks = KERNELS_BLOCKS_EACH * (unsigned)(processors > 0 ? processors : 1);
  if (result == RING_CUDA_SUCCESS)
    result = cuda->event_create(&kernels->used, RING_CUDA_EVENT_DISABLE_TIMING);
  if (result == RING_CUDA_SUCCESS) result = kernels_load_module(device);
  return result == RING_CUDA_SUCCESS ? kernels_get_memory(device) : result;
}

/* ---- Launching ----------------------------------------------------------------------------- */

void ring_kernels_begin(ring_kernel_batch *batch, ring_dtype from, ring_dtype to, double scale) {
  batch->kernel = kernels_find(from, to, scale);
  batch->copies = batch->kernel == KERNELS_copy;
  batch->width = ring_dtype_size(from);
  batch->scale = (float)scale;
  batch->items.count = 0;
  batch->items.first[0] = 0;
}

ring_cuda_result ring_kernels_launch(ring_device *device, ring_kernel_batch *batch,
                                     ring_cuda_stream stream) {
  ring_kernels *kernels = &device->kernels;
  ring_fuse_items *items = &batch->items;
  uint32_t pieces = items->first[items->count];
  if (pieces == 0) return RING_CUDA_SUCCESS;
  void *parameters[] = {items, &batch->scale};
  unsigned blocks = pieces < kernels->blocks ? pieces : kernels->blocks;
  ring_cuda_result result =
      device->cuda.launch(kernels->functions[batch->kernel], blocks, 1, 1, RING_FUSE_THREADS, 1, 1,
                          0, stream, parameters, NULL);
  atomic_fetch_add(&kernels->launches, 1);
  items->count = 0;
  return result;
}

ring_cuda_result ring_kernels_add(ring_device *device, ring_kernel_batch *batch, const void *from,
                                  void *to, size_t count, ring_cuda_stream stream) {
  ring_fuse_items *items = &batch->items;
  uint64_t elements = batch->copies ? (uint64_t)count * batch->width : count;
  const uint64_t piece = kernels_rows[batch->kernel].piece;
  if (count == 0) return RING_CUDA_SUCCESS;
  if (items->count == RING_FUSE_ITEMS) {
    ring_cuda_result result = ring_kernels_launch(device, batch, stream);
    if (result != RING_CUDA_SUCCESS) return result;
  }
  items->item[items->count] = (ring_fuse_item){from, to, elements};
  items->first[items->count + 1] =
      items->first[items->count] + (uint32_t)((elements + piece - 1) / piece);
  items->count++;
  return RING_CUDA_SUCCESS;
}

/* ---- Memory -------------------------------------------------------------------------------- */

/* Memory that was outgrown stays until the device is closed: to free it would wait for the GPU, perhaps for a call
 * whose peer is lost, and would keep the watch thread from CUDA meanwhile. Its sum is shorter than the memory. */
ring_cuda_result ring_kernels_acquire(ring_device *device, size_t bytes, ring_cuda_stream stream) {
  const ring_cuda *cuda = &device->cuda;
  ring_kernels *kernels = &device->kernels;
  size_t capacity = KERNELS_LEAST_BYTES;
  ring_cuda_memory made = 0;
  if (bytes <= kernels->capacity) return cuda->stream_wait(stream, kernels->used, 0);
  while (capacity < bytes) capacity *= 2;
  ring_cuda_result result = cuda->memory_alloc(&made, capacity);
  if (result != RING_CUDA_SUCCESS) return result;
  if (kernels->fused != 0) kernels->outgrown[kernels->outgrown_count++] = kernels->fused;
  kernels->fused = made;
  kernels->capacity = capacity;
  return cuda->fill(kernels->fused, 0, capacity, stream); /* gaps are reduced, too */
}

ring_cuda_result ring_kernels_release(ring_device *device, ring_cuda_stream stream) {
  return device->cuda.event_record(device->kernels.used, stream);
}

void ring_kernels_free(ring_device *device) {
  const ring_cuda *cuda = &device->cuda;
  ring_kernels *kernels = &device->kernels;
  for (int i = 0; i < kernels->outgrown_count; i++) cuda->memory_free(kernels->outgrown[i]);
  if (kernels->fused != 0) cuda->memory_free(kernels->fused);
  if (kernels->used != NULL) cuda->event_destroy(kernels->used);
  if (kernels->module != NULL) cuda->module_unload(kernels->module);
}
