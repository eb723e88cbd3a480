/* SPDX-License-Identifier: Apache-2.0 */
#include "device/device_state.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include "base/dtype.h"
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

ring_status ring_device_use(ring_device *device) {
  if (device == NULL || device->process != ring_platform_process())
    return ring_device_check(device);
  atomic_fetch_add(&device->users, 1);
  return ring_device_check(device);
}

void ring_device_unuse(ring_device *device) {
  if (device != NULL && device->process == ring_platform_process())
    atomic_fetch_sub(&device->users, 1);
}

ring_cuda_result ring_device_push(const ring_device *device, ring_cuda_capture_mode *before) {
  ring_cuda_result result = device->cuda.context_push(device->context);
  if (result != RING_CUDA_SUCCESS) return result;
  *before = RING_CUDA_CAPTURE_MODE_RELAXED;
  device->cuda.capture_mode(before);
  return result;
}

void ring_device_pop(const ring_device *device, ring_cuda_capture_mode before) {
  ring_cuda_context ours;
  device->cuda.capture_mode(&before);
  device->cuda.context_pop(&ours);
}

ring_status ring_device_enter(ring_device *device) {
  ring_status status = ring_device_check(device);
  if (status != RING_OK) return status;
  if (atomic_flag_test_and_set_explicit(&device->busy, memory_order_acquire))
    return ring_error_set(ring_device_reason(), RING_BUSY, device->rank, 0,
                          "another call on this device is running");
  ring_cuda_result result = RING_CUDA_SUCCESS;
  status = ring_device_check(device); /* another thread may have closed it */
  if (status == RING_OK) result = ring_device_push(device, &device->capture_mode);
  if (status == RING_OK && result == RING_CUDA_SUCCESS) return RING_OK;
  atomic_flag_clear_explicit(&device->busy, memory_order_release);
  if (status != RING_OK) return status;
  return ring_device_invalid(device, "cuCtxPushCurrent failed with %d (%s): CUDA is shut down",
                             (int)result, ring_cuda_text(&device->cuda, result));
}

ring_status ring_device_leave(ring_device *device, ring_status status) {
  if (status != RING_OK && device->failed) ring_device_await_release(device);
  ring_device_pop(device, device->capture_mode);
  atomic_flag_clear_explicit(&device->busy, memory_order_release);
  return status;
}

/* ---- Arguments ----------------------------------------------------------------------------- */

ring_status ring_device_check_stream(const ring_device *device, ring_cuda_stream stream,
                                     const char *call) {
  ring_cuda_capture_status captures = RING_CUDA_CAPTURE_STATUS_NONE;
  ring_cuda_result result = device->cuda.stream_capturing(stream, &captures);
  if (result == RING_CUDA_CAPTURE_IMPLICIT || captures != RING_CUDA_CAPTURE_STATUS_NONE)
    return ring_error_set(ring_device_reason(), RING_UNSUPPORTED, device->rank, 0,
                          "%s: the stream captures a graph, in which no call of a device can be: "
                          "call outside of the capture",
                          call);
  if (result == RING_CUDA_SUCCESS) return RING_OK;
  return ring_device_invalid(device, "%s: the stream cannot be used: CUDA returned %d (%s)", call,
                             (int)result, ring_cuda_text(&device->cuda, result));
}

ring_status ring_device_check_call(const ring_device *device, ring_cuda_stream stream,
                                   const char *call) {
  if ((uintptr_t)stream != RING_CUDA_STREAM_OF_THREAD)
    return ring_device_check_stream(device, stream, call);
  return ring_device_invalid(
      device,
      "%s: the default stream of a thread is another stream in the threads "
      "of NCCL: wait for it with ring_device_wait, and call on another stream",
      call);
}

/* A pointer of which CUDA knows no GPU passes: it may be of the system's allocator, which some GPUs can use. */
ring_status ring_device_check_pointer(const ring_device *device, const void *memory,
                                      ring_dtype dtype, const char *call) {
  int gpu = device->gpu;
  size_t width = ring_dtype_size(dtype);
  if (ring_dtype_is_complex(dtype)) width /= 2;
  if (memory == NULL) return RING_OK;
  if ((uintptr_t)memory % width != 0)
    return ring_device_invalid(device, "%s: memory is not aligned to %s", call,
                               ring_dtype_name(dtype));
  ring_cuda_result result = device->cuda.pointer_attribute(&gpu, RING_CUDA_POINTER_GPU,
                                                           (ring_cuda_memory)(uintptr_t)memory);
  if (result != RING_CUDA_SUCCESS || gpu == device->gpu) return RING_OK;
  return ring_device_invalid(device,
                             "%s: memory is on GPU %d, and the device is GPU %d: open the device "
                             "with that GPU, or move the data",
                             call, gpu, (int)device->gpu);
}

/* ---- Waiting ------------------------------------------------------------------------------- */

void ring_device_await_release(ring_device *device) {
  ring_detached_begin(&device->abort);
  ring_detached_await(&device->abort, RING_DEVICE_RELEASE_SECONDS);
}

void ring_device_begin_wait(const ring_device *device, double seconds, ring_wait *wait) {
  comm_prepare_wait(device->comm, seconds, wait);
  wait->interrupt = device->interrupt; /* not the hook of the device's communicator */
  wait->interrupt_arg = device->interrupt_arg;
  ring_wait_begin(wait);
}

ring_status ring_device_pause_once(ring_device *device, ring_device_pause *pause,
                                   const char *call) {
  if (device->failed) return ring_device_check(device);
  if (pause->tries++ < DEVICE_SPINS) {
    ring_platform_pause();
    return RING_OK;
  }
  if (pause->tries == DEVICE_SPINS + 1)
    ring_device_begin_wait(device, pause->seconds > 0 ? pause->seconds : DEVICE_FOREVER,
                           &pause->wait);
  const struct timespec time = {0, DEVICE_PAUSE_NS};
  nanosleep(&time, NULL);
  ring_status status = ring_wait_check(&pause->wait);
  if (status == RING_OK) return RING_OK;
  if (status == RING_TIMEOUT)
    return ring_error_set(ring_device_reason(), status, device->rank, 0,
                          "rank %d (%s) waited %.1f s for its GPU in %s: work that was on the "
                          "stream before does not end",
                          device->rank, device_host(device, device->rank),
                          ring_wait_seconds(&pause->wait), call);
  return ring_wait_aborted(&pause->wait, device->rank, call, ring_device_reason());
}
