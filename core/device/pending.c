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

/* An entry stays where it is when older ones are removed. NULL without memory. */
static ring_pending *pending_make(ring_device *device) {
  ring_pending_list *list = &device->pending;
  pthread_mutex_lock(&device->mutex);
  bool fits = list->count < list->capacity || pending_grow(list);
  ring_pending *made = fits ? pending_at(list, list->count) : NULL;
  pthread_mutex_unlock(&device->mutex);
  return made;
}

static ring_pending *pending_last(ring_device *device) {
  pthread_mutex_lock(&device->mutex);
  ring_pending *last = pending_at(&device->pending, device->pending.count - 1);
  pthread_mutex_unlock(&device->mutex);
  return last;
}

bool ring_pending_add(ring_device *device, const ring_call *call, int peer) {
  ring_pending *pending = pending_make(device);
  if (pending == NULL) return false;
  if (pending->event == NULL &&
      device->cuda.event_create(&pending->event, RING_CUDA_EVENT_DISABLE_TIMING) !=
          RING_CUDA_SUCCESS) {
    pending->event = NULL;
    return false;
  }
  pthread_mutex_lock(&device->mutex);
  pending->call = *call;
  pending->peer = peer;
  pending->begun = ring_platform_now();
  pending->recorded = false;
  device->pending.count++;
  pthread_mutex_unlock(&device->mutex);
  return true;
}

ring_cuda_result ring_pending_record(ring_device *device, ring_cuda_stream stream) {
  ring_pending *pending = pending_last(device);
  ring_cuda_result result = device->cuda.event_record(pending->event, stream);
  pthread_mutex_lock(&device->mutex);
  pending->recorded = result == RING_CUDA_SUCCESS;
  pthread_mutex_unlock(&device->mutex);
  return result;
}

void ring_pending_drop(ring_device *device) {
  pthread_mutex_lock(&device->mutex);
  device->pending.count--;
  pthread_mutex_unlock(&device->mutex);
}

/* The event of the oldest call; NULL: there is none, or it is not recorded yet. */
static ring_cuda_event pending_oldest(ring_device *device) {
  const ring_pending_list *list = &device->pending;
  pthread_mutex_lock(&device->mutex);
  ring_cuda_event event =
      list->count > 0 && pending_at(list, 0)->recorded ? pending_at(list, 0)->event : NULL;
  pthread_mutex_unlock(&device->mutex);
  return event;
}

ring_cuda_result ring_pending_retire(ring_device *device) {
  ring_pending_list *list = &device->pending;
  ring_cuda_event event;
  while ((event = pending_oldest(device)) != NULL) {
    ring_cuda_result result = device->cuda.event_query(event);
    if (result == RING_CUDA_NOT_READY) break;
    if (result != RING_CUDA_SUCCESS) return result;
    pthread_mutex_lock(&device->mutex);
    list->first = (list->first + 1) % list->capacity;
    list->count--;
    list->moved = ring_platform_now();
    pthread_mutex_unlock(&device->mutex);
  }
  return RING_CUDA_SUCCESS;
}

size_t ring_pending_count(ring_device *device) {
  pthread_mutex_lock(&device->mutex);
  size_t count = device->pending.count;
  pthread_mutex_unlock(&device->mutex);
  return count;
}

bool ring_pending_late(ring_device *device, ring_pending *late, double *age) {
  const ring_pending_list *list = &device->pending;
  double patience = device->call_timeout;
  uint64_t begun = 0;
  pthread_mutex_lock(&device->mutex);
  bool any = list->count > 0;
  if (any) *late = *pending_at(list, 0);
  if (any) begun = late->begun > list->moved ? late->begun : list->moved;
  pthread_mutex_unlock(&device->mutex);
  if (!any) return false;
  if (late->peer >= 0) patience += device_answer_seconds(device) + 1;
  *age = 1e-9 * (double)(ring_platform_now() - begun);
  return *age > patience;
}

void ring_pending_free(ring_device *device) {
  ring_pending_list *list = &device->pending;
  for (size_t i = 0; i < list->capacity; i++)
    if (list->calls[i].event != NULL) device->cuda.event_destroy(list->calls[i].event);
  free(list->calls);
  *list = (ring_pending_list){0};
}
