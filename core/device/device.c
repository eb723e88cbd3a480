/* SPDX-License-Identifier: Apache-2.0
 *
 * A call of a communicator on a device, and waits.
 */
#include <stdint.h>

#include "base/dtype.h"
#include "base/error.h"
#include "device/device_hub.h"
#include "device/dispatch.h"

/* ---- Calls --------------------------------------------------------------------------------- */

/* The communicator has checked all else. */
static ring_status device_check_args(const ring_device *device, const ring_device_args *args) {
  const char *name = ring_collective_name((uint8_t)args->collective);
  ring_status status = ring_device_check_pointer(device, args->input, args->dtype, name);
  if (status == RING_OK)
    status = ring_device_check_pointer(device, args->output, args->dtype, name);
  return status == RING_OK ? ring_device_check_call(device, args->stream, name) : status;
}

ring_status ring_device_run(ring_device *device, const ring_device_args *args) {
  ring_status status = ring_device_enter(device);
  if (status != RING_OK) return status;
  status = device_check_args(device, args);
  if (status == RING_OK) status = ring_device_dispatch(device, args);
  return ring_device_leave(device, status);
}

/* ---- Waiting ------------------------------------------------------------------------------- */

static ring_status device_stream_failed(const ring_device *device, ring_cuda_result result) {
  return ring_device_invalid(device, "the stream cannot be waited for: CUDA returned %d (%s)",
                             (int)result, ring_cuda_text(&device->cuda, result));
}

/* The device has failed: its streams go on when NCCL has ended. */
static ring_status device_failed(ring_device *device) {
  ring_device_await_release(device);
  return ring_device_check(device);
}

static ring_status device_await(ring_device *device, ring_cuda_event event) {
  ring_device_pause pause = {0};
  for (;;) {
    ring_cuda_result result = device->cuda.event_query(event);
    if (device->failed) return device_failed(device);
    if (result == RING_CUDA_SUCCESS) return RING_OK;
    if (result != RING_CUDA_NOT_READY)
      return ring_device_hub_report_cuda(device, result, RING_DEVICE_GPU_WORK);
    ring_status status = ring_device_pause_once(device, &pause, "ring_device_wait");
    if (status == RING_ABORTED && !device->failed)
      return ring_device_hub_report(device, ring_device_reason());
  }
}

static ring_status device_await_stream(ring_device *device, ring_cuda_stream stream) {
  ring_cuda_event event = NULL;
  ring_status status = ring_device_check_stream(device, stream, "wait");
  if (status != RING_OK) return status;
  ring_cuda_result result = device->cuda.event_create(&event, RING_CUDA_EVENT_DISABLE_TIMING);
  if (result == RING_CUDA_SUCCESS) {
    result = device->cuda.event_record(event, stream);
    if (result == RING_CUDA_SUCCESS) status = device_await(device, event);
    device->cuda.event_destroy(event);
  }
  return result == RING_CUDA_SUCCESS ? status : device_stream_failed(device, result);
}

static ring_status device_query_stream(ring_device *device, ring_cuda_stream stream, int *done) {
  ring_status status = ring_device_check_stream(device, stream, "test");
  if (status != RING_OK) return status;
  ring_cuda_result result = device->cuda.stream_query(stream);
  if (device->failed) return ring_device_check(device);
  *done = result == RING_CUDA_SUCCESS;
  if (result == RING_CUDA_SUCCESS || result == RING_CUDA_NOT_READY) return RING_OK;
  return device_stream_failed(device, result);
}

/* done NULL: waits. */
static ring_status device_look(ring_device *device, ring_cuda_stream stream, int *done) {
  ring_cuda_capture_mode mode;
  ring_cuda_result result = ring_device_push(device, &mode);
  if (result != RING_CUDA_SUCCESS)
    return ring_device_invalid(device, "cuCtxPushCurrent failed with %d (%s): CUDA is shut down",
                               (int)result, ring_cuda_text(&device->cuda, result));
  ring_status status = done == NULL ? device_await_stream(device, stream)
                                    : device_query_stream(device, stream, done);
  ring_device_pop(device, mode);
  return status;
}

ring_status ring_device_wait(ring_device *device, void *stream) {
  ring_status status = ring_device_use(device);
  if (status == RING_OK)
    status = device_look(device, stream, NULL);
  else if (status != RING_INVALID)
    device_failed(device);
  ring_device_unuse(device);
  return status;
}

ring_status ring_device_test(ring_device *device, void *stream, int *done) {
  if (done == NULL) return ring_device_invalid(device, "test: done is NULL");
  *done = 0;
  ring_status status = ring_device_use(device);
  if (status == RING_OK) status = device_look(device, stream, done);
  ring_device_unuse(device);
  return status;
}
