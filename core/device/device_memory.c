/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory holds the primary context of its GPU, so that it can be freed after the device.
 */
#include <stdlib.h>

#include "base/error.h"
#include "base/platform.h"
#include "device/device_state.h"

struct ring_device_memory {
  ring_cuda cuda;
  ring_cuda_gpu gpu;
  ring_cuda_context context;
  unsigned process;
  ring_cuda_memory address;
};

static ring_status memory_failed(const ring_device *device, size_t bytes, const char *why) {
  return ring_error_set(ring_device_reason(), RING_NO_MEMORY, device->rank, 0,
                        "rank %d (%s): %zu bytes of GPU %d cannot be allocated: %s", device->rank,
                        device_host(device, device->rank), bytes, (int)device->gpu, why);
}

/* On success the memory holds the context. */
static ring_cuda_result memory_make(const ring_device *device, size_t bytes,
                                    ring_device_memory *memory) {
  const ring_cuda *cuda = &device->cuda;
  ring_cuda_capture_mode mode;
  ring_cuda_result result = ring_device_push(device, &mode);
  if (result != RING_CUDA_SUCCESS) return result;
  result = cuda->memory_alloc(&memory->address, bytes > 0 ? bytes : 1);
  if (result == RING_CUDA_SUCCESS) {
    result = cuda->context_retain(&memory->context, memory->gpu);
    if (result != RING_CUDA_SUCCESS) cuda->memory_free(memory->address);
  }
  ring_device_pop(device, mode);
  return result;
}

static ring_status memory_alloc(const ring_device *device, size_t bytes,
                                ring_device_memory **memory) {
  ring_device_memory *made = calloc(1, sizeof *made);
  if (made == NULL) return memory_failed(device, bytes, "the host is out of memory");
  *made =
      (ring_device_memory){.cuda = device->cuda, .gpu = device->gpu, .process = device->process};
  ring_cuda_result result = memory_make(device, bytes, made);
  if (result != RING_CUDA_SUCCESS) {
    free(made);
    return memory_failed(device, bytes, ring_cuda_text(&device->cuda, result));
  }
  *memory = made;
  return RING_OK;
}

ring_status ring_device_memory_alloc(ring_device *device, size_t bytes,
                                     ring_device_memory **memory) {
  if (memory == NULL) return ring_device_invalid(device, "alloc: memory is NULL");
  *memory = NULL;
  ring_status status = ring_device_use(device);
  if (status == RING_OK) status = memory_alloc(device, bytes, memory);
  ring_device_unuse(device);
  return status;
}

void *ring_device_memory_address(const ring_device_memory *memory) {
  return (void *)(uintptr_t)memory->address; /* NOLINT(performance-no-int-to-ptr): of the GPU */
}

void ring_device_memory_free(ring_device_memory *memory) {
  ring_cuda_context ours;
  if (memory == NULL) return;
  if (memory->process == ring_platform_process()) {
    if (memory->cuda.context_push(memory->context) == RING_CUDA_SUCCESS) {
      memory->cuda.memory_free(memory->address);
      memory->cuda.context_pop(&ours);
    }
    memory->cuda.context_release(memory->gpu);
  }
  free(memory);
}
