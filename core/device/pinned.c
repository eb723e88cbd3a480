/* SPDX-License-Identifier: Apache-2.0 */
#include "device/pinned.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/platform.h"

#define PINNED_PAUSE_NS 100000
#define PINNED_PATIENCE_NS UINT64_C(5000000000)

static size_t pinned_page(void) {
  long bytes = sysconf(_SC_PAGESIZE);
  return bytes > 0 ? (size_t)bytes : 4096;
}

/* Registers whole pages, of which the arena's neighbours have no part. */
static void pinned_lock(ring_device *device, size_t bytes) {
  const size_t page = pinned_page();
  ring_pinned *pinned = &device->pinned;
  uint8_t *first = pinned->memory;
  first += (page - (uintptr_t)first % page) % page;
  pinned->locked = first;
  ring_cuda_result result =
      device->cuda.host_register(first, bytes, RING_CUDA_HOST_REGISTER_PORTABLE);
  pinned->page_locked = result == RING_CUDA_SUCCESS ? 1 : -1;
  for (int i = 0; i < RING_PINNED_SLOTS; i++) {
    pinned->slots[i].input = first + (size_t)(2 * i) * RING_PINNED_BYTES;
    pinned->slots[i].output = first + (size_t)(2 * i + 1) * RING_PINNED_BYTES;
  }
}

static ring_cuda_result pinned_make(ring_device *device) {
  const ring_cuda *cuda = &device->cuda;
  ring_pinned *pinned = &device->pinned;
  ring_cuda_result result = cuda->stream_create(&pinned->down, RING_CUDA_STREAM_NON_BLOCKING);
  if (result == RING_CUDA_SUCCESS)
    result = cuda->stream_create(&pinned->up, RING_CUDA_STREAM_NON_BLOCKING);
  if (result == RING_CUDA_SUCCESS)
    result = cuda->event_create(&pinned->begin, RING_CUDA_EVENT_DISABLE_TIMING);
  if (result == RING_CUDA_SUCCESS)
    result = cuda->event_create(&pinned->end, RING_CUDA_EVENT_DISABLE_TIMING);
  for (int i = 0; i < RING_PINNED_SLOTS && result == RING_CUDA_SUCCESS; i++) {
    ring_pinned_slot *slot = &pinned->slots[i];
    result = cuda->event_create(&slot->down, RING_CUDA_EVENT_DISABLE_TIMING);
    if (result == RING_CUDA_SUCCESS)
      result = cuda->event_create(&slot->up, RING_CUDA_EVENT_DISABLE_TIMING);
  }
  return result;
}

ring_status ring_pinned_ready(ring_device *device, ring_cuda_result *result) {
  ring_pinned *pinned = &device->pinned;
  const size_t bytes = 2 * RING_PINNED_SLOTS * RING_PINNED_BYTES;
  *result = RING_CUDA_SUCCESS;
  if (pinned->ready) return RING_OK;
  if (pinned->memory == NULL) {
    ring_status status = ring_alloc(device->comm, bytes + pinned_page(), &pinned->memory);
    if (status != RING_OK) return status;
    pinned_lock(device, bytes);
  }
  *result = pinned_make(device);
  pinned->ready = *result == RING_CUDA_SUCCESS;
  return pinned->ready ? RING_OK : RING_SYSTEM;
}

ring_cuda_result ring_pinned_begin(ring_device *device, ring_cuda_stream stream) {
  const ring_pinned *pinned = &device->pinned;
  ring_cuda_result result = device->cuda.event_record(pinned->begin, stream);
  if (result == RING_CUDA_SUCCESS)
    result = device->cuda.stream_wait(pinned->down, pinned->begin, 0);
  if (result == RING_CUDA_SUCCESS) result = device->cuda.stream_wait(pinned->up, pinned->begin, 0);
  return result;
}

ring_cuda_result ring_pinned_end(ring_device *device, ring_cuda_stream stream) {
  const ring_pinned *pinned = &device->pinned;
  ring_cuda_result result = device->cuda.event_record(pinned->end, pinned->up);
  return result == RING_CUDA_SUCCESS ? device->cuda.stream_wait(stream, pinned->end, 0) : result;
}

ring_pinned_slot *ring_pinned_take(ring_device *device, ring_cuda_result *result) {
  ring_pinned *pinned = &device->pinned;
  ring_pinned_slot *slot = &pinned->slots[pinned->turn];
  pinned->turn = (pinned->turn + 1) % RING_PINNED_SLOTS;
  *result = device->cuda.stream_wait(pinned->down, slot->up, 0); /* one never recorded is done */
  return slot;
}

bool ring_pinned_await(const ring_device *device) {
  const ring_pinned *pinned = &device->pinned;
  const struct timespec time = {0, PINNED_PAUSE_NS};
  if (!pinned->ready) return true;
  for (uint64_t begun = ring_platform_now(); ring_platform_now() - begun < PINNED_PATIENCE_NS;) {
    if (device->cuda.stream_query(pinned->down) != RING_CUDA_NOT_READY &&
        device->cuda.stream_query(pinned->up) != RING_CUDA_NOT_READY)
      return true;
    nanosleep(&time, NULL);
  }
  return false;
}

void ring_pinned_free(ring_device *device) {
  const ring_cuda *cuda = &device->cuda;
  ring_pinned *pinned = &device->pinned;
  if (!ring_pinned_await(device)) return; /* the GPU may still write: the memory stays */
  for (int i = 0; i < RING_PINNED_SLOTS; i++) {
    if (pinned->slots[i].down != NULL) cuda->event_destroy(pinned->slots[i].down);
    if (pinned->slots[i].up != NULL) cuda->event_destroy(pinned->slots[i].up);
  }
  if (pinned->begin != NULL) cuda->event_destroy(pinned->begin);
  if (pinned->end != NULL) cuda->event_destroy(pinned->end);
  if (pinned->down != NULL) cuda->stream_destroy(pinned->down);
  if (pinned->up != NULL) cuda->stream_destroy(pinned->up);
  if (pinned->page_locked > 0) cuda->host_unregister(pinned->locked);
  ring_free(pinned->memory);
  memset(pinned, 0, sizeof *pinned);
}
