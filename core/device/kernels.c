/* SPDX-License-Identifier: Apache-2.0 */
#include "device/kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "device/nvrtc_api.h"

#define KERNELS_BLOCKS_EACH 8 /* of a multiprocessor */
#define KERNELS_LEAST_BYTES ((size_t)1 << 20)

/* Each is twice as long as the one before. */
_Static_assert(KERNELS_LEAST_BYTES << RING_KERNELS_OUTGROWN >= RING_KERNELS_MOST_BYTES, "outgrown");

typedef enum kernels_index {
#define KERNELS_INDEX(name, ...) KERNELS_##name,
  RING_KERNEL_MAP(KERNELS_INDEX)
#undef KERNELS_INDEX
} kernels_index;

/* ---- Text ---------------------------------------------------------------------------------- */

#define KERNELS_TEXT(...) KERNELS_QUOTE(__VA_ARGS__)
#define KERNELS_QUOTE(...) #__VA_ARGS__
#define RING_KERNEL(name)                                                                          \
  extern "C" __global__ void __launch_bounds__(RING_KERNEL_THREADS)                                \
      ring_kernel_##name(const ring_kernel_runs all, float scale)
#define RING_KERNEL_BLOCK blockIdx.x
#define RING_KERNEL_BLOCKS gridDim.x
#define RING_KERNEL_THREAD threadIdx.x

/* The bits of halves, without CUDA's headers, which take NVRTC longer than all else; of bfloat16 by whole numbers, for
 * GPUs before 8.0 have no instruction. NaN stays NaN. */
static const char kernels_conversions[] =
    "static __device__ float ring_f16(unsigned short half) {\n"
    "  float value;\n"
    "  asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(value) : \"h\"(half));\n"
    "  return value;\n"
    "}\n"
    "static __device__ unsigned short ring_to_f16(float value) {\n"
    "  unsigned short half;\n"
    "  asm(\"cvt.rn.f16.f32 %0, %1;\" : \"=h\"(half) : \"f\"(value));\n"
    "  return half;\n"
    "}\n"
    "static __device__ float ring_bf16(unsigned short half) {\n"
    "  return __uint_as_float((unsigned)half << 16);\n"
    "}\n"
    "static __device__ unsigned short ring_to_bf16(float value) {\n"
    "  unsigned bits = __float_as_uint(value);\n"
    "  if ((bits & 0x7fffffff) > 0x7f800000) return bits >> 16 | 0x40;\n"
    "  return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;\n"
    "}\n";

typedef struct kernels_row {
  const char *name;
  unsigned piece;
  const char *text;
} kernels_row;

static const kernels_row kernels_rows[RING_KERNEL_COUNT] = {
#define KERNELS_ROW(name, from, to, width, piece, ...)                                             \
  {"ring_kernel_" #name, piece,                                                                    \
   KERNELS_TEXT(RING_KERNEL_DEFINE(name, from, to, width, piece, __VA_ARGS__)) "\n"},
    RING_KERNEL_MAP(KERNELS_ROW)
#undef KERNELS_ROW
};

char *ring_kernels_text(void) {
  static const char types[] = KERNELS_TEXT(RING_KERNEL_TYPES) "\n";
  size_t bytes = sizeof types + sizeof kernels_conversions;
  for (int i = 0; i < RING_KERNEL_COUNT; i++) bytes += strlen(kernels_rows[i].text);
  char *text = malloc(bytes);
  if (text == NULL) return NULL;
  size_t length = (size_t)snprintf(text, bytes, "%s%s", types, kernels_conversions);
  for (int i = 0; i < RING_KERNEL_COUNT; i++)
    length += (size_t)snprintf(text + length, bytes - length, "%s", kernels_rows[i].text);
  return text;
}

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

/* ---- Opening ------------------------------------------------------------------------------- */

/* The kernels as the driver loads them; NULL with the reason in `problem`. */
static char *kernels_compile(const ring_device *device, const char *libraries, char *problem,
                             size_t size) {
  const ring_cuda *cuda = &device->cuda;
  int major = 0, minor = 0;
  ring_nvrtc nvrtc;
  if (!ring_nvrtc_load(&nvrtc, libraries, device->cuda_version, problem, size)) return NULL;
  if (cuda->gpu_attribute(&major, RING_CUDA_CAPABILITY_MAJOR, device->gpu) != RING_CUDA_SUCCESS ||
      cuda->gpu_attribute(&minor, RING_CUDA_CAPABILITY_MINOR, device->gpu) != RING_CUDA_SUCCESS)
    return NULL;
  char *text = ring_kernels_text();
  if (text == NULL) return NULL;
  char *image = ring_nvrtc_compile(&nvrtc, text, 10 * major + minor, problem, size);
  free(text);
  return image;
}

static ring_cuda_result kernels_load(ring_device *device, const char *image) {
  const ring_cuda *cuda = &device->cuda;
  ring_kernels *kernels = &device->kernels;
  ring_cuda_result result = cuda->module_load(&kernels->module, image);
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

/* All that is CUDA's. The image is the kernels'. */
static ring_cuda_result kernels_begin(ring_device *device, const char *image) {
  const ring_cuda *cuda = &device->cuda;
  ring_kernels *kernels = &device->kernels;
  int processors = 0;
  ring_cuda_result result =
      cuda->gpu_attribute(&processors, RING_CUDA_MULTIPROCESSOR_COUNT, device->gpu);
  kernels->blocks = KERNELS_BLOCKS_EACH * (unsigned)(processors > 0 ? processors : 1);
  if (result == RING_CUDA_SUCCESS)
    result = cuda->event_create(&kernels->used, RING_CUDA_EVENT_DISABLE_TIMING);
  if (result == RING_CUDA_SUCCESS) result = kernels_load(device, image);
  return result == RING_CUDA_SUCCESS ? kernels_get_memory(device) : result;
}

void ring_kernels_open(ring_device *device, const char *libraries, char *problem, size_t size) {
  snprintf(problem, size, "the host is out of memory");
  char *image = kernels_compile(device, libraries, problem, size);
  if (image == NULL) return;
  ring_cuda_result result = kernels_begin(device, image);
  free(image);
  problem[0] = '\0';
  if (result != RING_CUDA_SUCCESS)
    snprintf(problem, size, "CUDA returned %d (%s)", (int)result,
             ring_cuda_text(&device->cuda, result));
}

/* ---- Launching ----------------------------------------------------------------------------- */

void ring_kernels_begin(ring_kernel_batch *batch, ring_dtype from, ring_dtype to, double scale) {
  batch->kernel = kernels_find(from, to, scale);
  batch->copies = batch->kernel == KERNELS_copy;
  batch->width = ring_dtype_size(from);
  batch->scale = (float)scale;
  batch->runs.count = 0;
  batch->runs.first[0] = 0;
}

ring_cuda_result ring_kernels_launch(ring_device *device, ring_kernel_batch *batch,
                                     ring_cuda_stream stream) {
  ring_kernels *kernels = &device->kernels;
  ring_kernel_runs *runs = &batch->runs;
  uint32_t pieces = runs->first[runs->count];
  if (pieces == 0) return RING_CUDA_SUCCESS;
  void *parameters[] = {runs, &batch->scale};
  unsigned blocks = pieces < kernels->blocks ? pieces : kernels->blocks;
  ring_cuda_result result =
      device->cuda.launch(kernels->functions[batch->kernel], blocks, 1, 1, RING_KERNEL_THREADS, 1,
                          1, 0, stream, parameters, NULL);
  atomic_fetch_add(&kernels->launches, 1);
  runs->count = 0;
  return result;
}

ring_cuda_result ring_kernels_add(ring_device *device, ring_kernel_batch *batch, const void *from,
                                  void *to, size_t count, ring_cuda_stream stream) {
  ring_kernel_runs *runs = &batch->runs;
  uint64_t elements = batch->copies ? (uint64_t)count * batch->width : count;
  const uint64_t piece = kernels_rows[batch->kernel].piece;
  if (count == 0) return RING_CUDA_SUCCESS;
  if (runs->count == RING_KERNEL_RUNS) {
    ring_cuda_result result = ring_kernels_launch(device, batch, stream);
    if (result != RING_CUDA_SUCCESS) return result;
  }
  runs->run[runs->count] = (ring_kernel_run){from, to, elements};
  runs->first[runs->count + 1] =
      runs->first[runs->count] + (uint32_t)((elements + piece - 1) / piece);
  runs->count++;
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
