/* SPDX-License-Identifier: Apache-2.0 */
#include "device/side_stream.h"

#include <stdlib.h>

#include "base/error.h"

void ring_side_stream_init(ring_side_stream *side) {
  *side = (ring_side_stream){.gpu = -1};
  pthread_mutex_init(&side->mutex, NULL);
}

/* ---- The context --------------------------------------------------------------------------- */

static ring_status side_failed(const ring_side_stream *side, const char *what,
                               ring_cuda_result result, ring_error *error) {
  return ring_error_set(error, RING_INVALID, -1, 0, "%s: CUDA returned %d (%s)", what, (int)result,
                        ring_cuda_text(&side->cuda, result));
}

/* Between enter and leave another thread's capture of a stream does not forbid calls of CUDA. */
static ring_status side_enter(const ring_side_stream *side, ring_cuda_capture_mode *before,
                              ring_error *error) {
  *before = RING_CUDA_CAPTURE_MODE_RELAXED;
  ring_cuda_result result = side->cuda.context_push(side->context);
  if (result != RING_CUDA_SUCCESS) return side_failed(side, "cuCtxPushCurrent", result, error);
  side->cuda.capture_mode(before);
  return RING_OK;
}

static void side_leave(const ring_side_stream *side, ring_cuda_capture_mode before) {
  ring_cuda_context ours;
  side->cuda.capture_mode(&before);
  side->cuda.context_pop(&ours);
}

/* ---- Opening and closing ------------------------------------------------------------------- */

/* The GPU of memory, else that of the calling thread's context, else the first. */
static int side_gpu_of(const ring_side_stream *side, const void *memory) {
  ring_cuda_context current = NULL;
  ring_cuda_gpu found;
  int gpu;
  if (memory != NULL &&
      side->cuda.pointer_attribute(&gpu, RING_CUDA_POINTER_GPU,
                                   (ring_cuda_memory)(uintptr_t)memory) == RING_CUDA_SUCCESS)
    return gpu;
  if (side->cuda.context_current(&current) == RING_CUDA_SUCCESS && current != NULL &&
      side->cuda.context_gpu(&found) == RING_CUDA_SUCCESS)
    return (int)found;
  return 0;
}

static ring_status side_make(ring_side_stream *side, ring_error *error) {
  ring_cuda_capture_mode mode;
  ring_cuda_result result = side->cuda.context_retain(&side->context, side->gpu);
  if (result != RING_CUDA_SUCCESS)
    return side_failed(side, "cuDevicePrimaryCtxRetain", result, error);
  ring_status status = side_enter(side, &mode, error);
  if (status == RING_OK) {
    result = side->cuda.stream_create(&side->stream, RING_CUDA_STREAM_NON_BLOCKING);
    side_leave(side, mode);
    if (result != RING_CUDA_SUCCESS) status = side_failed(side, "cuStreamCreate", result, error);
  }
  if (status != RING_OK) side->cuda.context_release(side->gpu);
  return status;
}

/* Called with the mutex. */
static ring_status side_open(ring_side_stream *side, const char *libraries, int gpu,
                             const void *memory, ring_error *error) {
  char problem[256];
  if (side->is_open) return RING_OK;
  if (!ring_cuda_load(&side->cuda, libraries, problem, sizeof problem))
    return ring_error_set(error, RING_UNSUPPORTED, -1, 0, "memory of a GPU cannot be used: %s",
                          problem);
  side->gpu = gpu >= 0 ? gpu : side_gpu_of(side, memory);
  ring_status status = side_make(side, error);
  side->is_open = status == RING_OK;
  return status;
}

ring_status ring_side_stream_open(ring_side_stream *side, const char *libraries, int gpu,
                                  const void *memory, ring_error *error) {
  if (side->is_open) return RING_OK;
  pthread_mutex_lock(&side->mutex);
  ring_status status = side_open(side, libraries, gpu, memory, error);
  pthread_mutex_unlock(&side->mutex);
  return status;
}

void ring_side_stream_close(ring_side_stream *side) {
  ring_cuda_capture_mode mode;
  if (side->is_open && side_enter(side, &mode, NULL) == RING_OK) {
    while (side->spare_count > 0) side->cuda.event_destroy(side->spare[--side->spare_count]);
    side->cuda.stream_destroy(side->stream);
    side_leave(side, mode);
    side->cuda.context_release(side->gpu);
  }
  free(side->spare);
  pthread_mutex_destroy(&side->mutex);
}

/* A pointer of which CUDA knows no GPU passes, as in ring_device_check_pointer(). */
ring_status ring_side_stream_check(const ring_side_stream *side, const void *memory,
                                   ring_error *error) {
  int gpu = side->gpu;
  if (memory == NULL) return RING_OK;
  ring_cuda_result result = side->cuda.pointer_attribute(&gpu, RING_CUDA_POINTER_GPU,
                                                         (ring_cuda_memory)(uintptr_t)memory);
  if (result != RING_CUDA_SUCCESS || gpu == side->gpu) return RING_OK;
  return ring_error_set(error, RING_INVALID, -1, 0,
                        "memory is on GPU %d, and earlier memory on GPU %d: move the data", gpu,
                        side->gpu);
}

/* ---- Marks --------------------------------------------------------------------------------- */

static ring_cuda_event side_take_spare(ring_side_stream *side) {
  pthread_mutex_lock(&side->mutex);
  ring_cuda_event event = side->spare_count > 0 ? side->spare[--side->spare_count] : NULL;
  pthread_mutex_unlock(&side->mutex);
  return event;
}

static bool side_keep_spare(ring_side_stream *side, ring_cuda_event event) {
  if (side->spare_count == side->spare_capacity) {
    size_t grown = 2 * side->spare_capacity + 16;
    ring_cuda_event *spare = realloc(side->spare, grown * sizeof(ring_cuda_event));
    if (spare == NULL) return false;
    side->spare = spare;
    side->spare_capacity = grown;
  }
  side->spare[side->spare_count++] = event;
  return true;
}

void ring_side_stream_forget(ring_side_stream *side, ring_cuda_event mark) {
  ring_cuda_capture_mode mode;
  if (mark == NULL) return;
  pthread_mutex_lock(&side->mutex);
  bool kept = side_keep_spare(side, mark);
  pthread_mutex_unlock(&side->mutex);
  if (kept || side_enter(side, &mode, NULL) != RING_OK) return;
  side->cuda.event_destroy(mark);
  side_leave(side, mode);
}

/* A capture is found out before the stream is used: an event in it would be a part of the graph. */
static ring_status side_record(const ring_side_stream *side, ring_cuda_stream stream,
                               ring_cuda_event *mark, ring_error *error) {
  ring_cuda_capture_status captures = RING_CUDA_CAPTURE_STATUS_NONE;
  ring_cuda_result result = side->cuda.stream_capturing(stream, &captures);
  if (result == RING_CUDA_CAPTURE_IMPLICIT || captures != RING_CUDA_CAPTURE_STATUS_NONE)
    return ring_error_set(error, RING_UNSUPPORTED, -1, 0,
                          "the stream captures a graph, in which no call of a device can be: call "
                          "outside of the capture");
  if (result == RING_CUDA_SUCCESS && *mark == NULL)
    result = side->cuda.event_create(mark, RING_CUDA_EVENT_DISABLE_TIMING);
  if (result == RING_CUDA_SUCCESS) result = side->cuda.event_record(*mark, stream);
  return result == RING_CUDA_SUCCESS
             ? RING_OK
             : side_failed(side, "the stream cannot be used", result, error);
}

ring_status ring_side_stream_mark(ring_side_stream *side, void *stream, ring_cuda_event *mark,
                                  ring_error *error) {
  ring_cuda_capture_mode mode;
  *mark = NULL;
  ring_status status = side_enter(side, &mode, error);
  if (status != RING_OK) return status;
  *mark = side_take_spare(side);
  status = side_record(side, stream, mark, error);
  side_leave(side, mode);
  if (status == RING_OK) return RING_OK;
  ring_side_stream_forget(side, *mark);
  *mark = NULL;
  return status;
}

ring_status ring_side_stream_follow(ring_side_stream *side, ring_cuda_event mark,
                                    ring_error *error) {
  ring_cuda_capture_mode mode;
  ring_status status = side_enter(side, &mode, error);
  if (status != RING_OK) return status;
  ring_cuda_result result = side->cuda.stream_wait(side->stream, mark, 0);
  side_leave(side, mode);
  return result == RING_CUDA_SUCCESS ? RING_OK
                                     : side_failed(side, "cuStreamWaitEvent", result, error);
}

ring_status ring_side_stream_clear(ring_side_stream *side, void *memory, size_t bytes,
                                   ring_error *error) {
  ring_cuda_capture_mode mode;
  ring_status status = side_enter(side, &mode, error);
  if (status != RING_OK) return status;
  ring_cuda_result result =
      side->cuda.fill((ring_cuda_memory)(uintptr_t)memory, 0, bytes, side->stream);
  side_leave(side, mode);
  return result == RING_CUDA_SUCCESS ? RING_OK
                                     : side_failed(side, "cuMemsetD8Async", result, error);
}
