/* SPDX-License-Identifier: Apache-2.0 */
#include "device/device_state.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include "base/error.h"
#include "base/platform.h"

#define DEVICE_SPINS 2000
#define DEVICE_PAUSE_NS 50000
#define DEVICE_FOREVER 1e8 /* seconds */

ring_error *ring_device_reason(void) {
  static _Thread_local ring_error reason = {.rank = -1};
  return &reason;
}

const ring_error *ring_device_error(const ring_device *device) {
  (void)device;
  return ring_device_reason();
}

ring_status ring_device_invalid(const ring_device *device, const char *format, ...) {
  char text[400];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return ring_error_set(ring_device_reason(), RING_INVALID, device != NULL ? device->rank : -1, 0,
                        "%s", text);
}

/* ---- Failure ------------------------------------------------------------------------------- */

ring_status ring_device_set_failure(ring_device *device, const ring_error *error) {
  pthread_mutex_lock(&device->mutex);
  if (!device->failed) {
    device->failure = *error;
    device->failed = true;
  }
  pthread_mutex_unlock(&device->mutex);
  *ring_device_reason() = device->failure; /* written once */
  return device->failure.status;
}

ring_status ring_device_check(ring_device *device) {
  if (device == NULL) return ring_device_invalid(NULL, "device is NULL");
  if (device->process != ring_platform_process())
    return ring_device_invalid(device, "this device belongs to the process that forked this one: "
                                       "open one of its own here");
  if (device->closed) return ring_device_invalid(device, "the device is closed");
  if (!device->failed) return RING_OK;
  *ring_device_reason() = device->failure;
  return device->failure.status;
}

/* ---- Entering and leaving ------------------------------------------------------------------ */

ring_cuda_result ring_device_push(const ring_device *device) {
  return device->cuda.context_push(device->context);
}

void ring_device_pop(const ring_device *device) {
  ring_cuda_context ours;
  device->cuda.context_pop(&ours);
}

bool ring_device_captures(const ring_device *device, ring_cuda_stream stream) {
  ring_cuda_capture_status status = RING_CUDA_CAPTURE_STATUS_NONE;
  return device->cuda.stream_capturing(stream, &status) != RING_CUDA_SUCCESS ||
         status != RING_CUDA_CAPTURE_STATUS_NONE;
}

ring_status ring_device_enter(ring_device *device) {
  ring_status status = ring_device_check(device);
  if (status != RING_OK) return status;
  if (atomic_flag_test_and_set_explicit(&device->busy, memory_order_acquire))
    return ring_error_set(ring_device_reason(), RING_BUSY, device->rank, 0,
                          "another call on this device is running");
  ring_cuda_result result = ring_device_push(device);
  if (result == RING_CUDA_SUCCESS) return RING_OK;
  atomic_flag_clear_explicit(&device->busy, memory_order_release);
  return ring_device_invalid(device, "cuCtxPushCurrent failed with %d (%s): CUDA is shut down",
                             (int)result, ring_cuda_text(&device->cuda, result));
}

ring_status ring_device_leave(ring_device *device, ring_status status) {
  ring_device_pop(device);
  atomic_flag_clear_explicit(&device->busy, memory_order_release);
  return status;
}

/* ---- Waiting ------------------------------------------------------------------------------- */

ring_status ring_device_rest(ring_device *device, ring_device_pause *pause, const char *what) {
  if (device->failed) return ring_device_check(device);
  if (pause->tries++ < DEVICE_SPINS) {
    ring_platform_pause();
    return RING_OK;
  }
  if (pause->tries == DEVICE_SPINS + 1)
    ring_wait_init(&pause->wait, pause->seconds > 0 ? pause->seconds : DEVICE_FOREVER,
                   device->interrupt, device->interrupt_arg);
  const struct timespec doze = {0, DEVICE_PAUSE_NS};
  nanosleep(&doze, NULL);
  ring_status status = ring_wait_check(&pause->wait);
  if (status == RING_OK) return RING_OK;
  if (status == RING_TIMEOUT)
    return ring_error_set(ring_device_reason(), status, device->rank, 0,
                          "rank %d (%s) waited %.1f s for its GPU in %s: work that was on the "
                          "stream before does not end",
                          device->rank, device_host(device, device->rank),
                          ring_wait_seconds(&pause->wait), what);
  return ring_wait_aborted(&pause->wait, device->rank, what, ring_device_reason());
}
