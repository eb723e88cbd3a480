/* SPDX-License-Identifier: Apache-2.0 */
#include "device/pending.h"

#include <stdlib.h>

#include "base/platform.h"

static ring_pending *pending_at(const ring_pending_list *list, size_t i) {
  return &list->calls[(list->first + i) % list->capacity];
}

/* Doubles the capacity. The entries move to the beginning. */
static bool pending_grow(ring_pending_list *list) {
  size_t capacity = list->capacity == 0 ? 64 : 2 * list->capacity;
  ring_pending *calls = calloc(capacity, sizeof *calls);
  if (calls == NULL) return false;
  for (size_t i = 0; i < list->capacity; i++) calls[i] = *pending_at(list, i);
  free(list->calls);
  list->calls = calls;
  list->capacity = capacity;
  list->first = 0;
  return true;
}

bool ring_pending_add(ring_device *device, const ring_call *call, int peer) {
  ring_pending_list *list = &device->pending;
  if (list->count == list->capacity && !pending_grow(list)) return false;
  ring_pending *pending = pending_at(list, list->count);
  if (pending->event == NULL &&
      device->cuda.event_create(&pending->event, RING_CUDA_EVENT_DISABLE_TIMING) !=
          RING_CUDA_SUCCESS)
    return false;
  pending->call = *call;
  pending->peer = peer;
  pending->begun = ring_platform_now();
  pending->recorded = false;
  list->count++;
  return true;
}

ring_cuda_result ring_pending_record(ring_device *device, ring_cuda_stream stream) {
  ring_pending *pending = pending_at(&device->pending, device->pending.count - 1);
  ring_cuda_result result = device->cuda.event_record(pending->event, stream);
  pending->recorded = result == RING_CUDA_SUCCESS;
  return result;
}

void ring_pending_drop(ring_device *device) {
  device->pending.count--;
}

ring_cuda_result ring_pending_retire(ring_device *device) {
  ring_pending_list *list = &device->pending;
  for (; list->count > 0; list->first = (list->first + 1) % list->capacity, list->count--) {
    const ring_pending *pending = pending_at(list, 0);
    if (!pending->recorded) break;
    ring_cuda_result result = device->cuda.event_query(pending->event);
    if (result == RING_CUDA_NOT_READY) break;
    if (result != RING_CUDA_SUCCESS) return result;
    list->moved = ring_platform_now();
  }
  return RING_CUDA_SUCCESS;
}

static uint64_t pending_since(const ring_pending_list *list) {
  uint64_t begun = pending_at(list, 0)->begun;
  return begun > list->moved ? begun : list->moved;
}

double ring_pending_age(const ring_device *device) {
  if (device->pending.count == 0) return 0;
  return 1e-9 * (double)(ring_platform_now() - pending_since(&device->pending));
}

const ring_pending *ring_pending_late(const ring_device *device) {
  return ring_pending_age(device) > device->call_timeout ? pending_at(&device->pending, 0) : NULL;
}

const ring_pending *ring_pending_find(const ring_device *device, uint32_t sequence) {
  const ring_pending_list *list = &device->pending;
  for (size_t i = 0; i < list->count; i++) {
    const ring_pending *pending = pending_at(list, i);
    if (pending->peer < 0 && pending->call.sequence == sequence) return pending;
  }
  return NULL;
}

void ring_pending_free(ring_device *device) {
  ring_pending_list *list = &device->pending;
  for (size_t i = 0; i < list->capacity; i++)
    if (list->calls[i].event != NULL) device->cuda.event_destroy(list->calls[i].event);
  free(list->calls);
  *list = (ring_pending_list){0};
}
