/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory holds the primary context of its GPU, so that it can be freed after the device. A device may be in a
 * context of the caller's own, which has to outlive its memory.
 */
#include <stdlib.h>

#include "base/error.h"
#include "base/platform.h"
#include "device/device_state.h"

struct ring_device_memory {
  ring_cuda cuda;
  ring_cuda_gpu gpu;
  ring_cuda_context context;
  bool retained;
  unsigned process;
  ring_cuda_memory address;
};

static ring_status memory_failed(const ring_device *device, size_t bytes, const char *why) {
  return ring_error_set(ring_device_reason(), RING_NO_MEMORY, device->rank, 0,
                        "rank %d (%s): %zu bytes of GPU %d cannot be allocated: %s", device->rank,
                        device_host(device, device->rank), bytes, (int)device->gpu, why);
}

static void memory_hold_context(ring_device_memory *memory) {
  ring_cuda_context primary = NULL;
  memory->retained = memory->cuda.context_retain(&primary, memory->gpu) == RING_CUDA_SUCCESS;
  if (memory->retained && primary != memory->context) {
    memory->cuda.context_release(memory->gpu);
    memory->retained = false;
  }
}

ring_status ring_device_memory_alloc(ring_device *device, size_t bytes,
                                     ring_device_memory **memory) {
  if (memory == NULL) return ring_device_invalid(device, "alloc: memory is NULL");
  *memory = NULL;
  ring_status status = ring_device_check(device);
  if (status != RING_OK) return status;
  ring_device_memory *made = calloc(1, sizeof *made);
  if (made == NULL) return memory_failed(device, bytes, "the host is out of memory");
  *made = (ring_device_memory){.cuda = device->cuda,
                               .gpu = device->gpu,
                               .context = device->context,
                               .process = device->process};
  ring_cuda_result result = ring_device_push(device);
  if (result == RING_CUDA_SUCCESS) {
    result = device->cuda.memory_alloc(&made->address, bytes > 0 ? bytes : 1);
    ring_device_pop(device);
  }
  if (result != RING_CUDA_SUCCESS) {
    free(made);
    return memory_failed(device, bytes, ring_cuda_text(&device->cuda, result));
  }
  memory_hold_context(made);
  *memory = made;
  return RING_OK;
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
    if (memory->retained) memory->cuda.context_release(memory->gpu);
  }
  free(memory);
}
