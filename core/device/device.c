/* SPDX-License-Identifier: Apache-2.0
 *
 * The calls of sparkring_device.h: collectives, messages, waits.
 */
#include <stdint.h>

#include "base/dtype.h"
#include "base/error.h"
#include "device/device_hub.h"
#include "device/dispatch.h"

/* ---- Arguments ----------------------------------------------------------------------------- */

static bool device_reads(const ring_device *device, const ring_device_args *args) {
  return args->collective != RING_COLLECTIVE_BROADCAST || device->rank == args->root;
}

static bool device_writes(const ring_device *device, const ring_device_args *args) {
  return args->collective != RING_COLLECTIVE_REDUCE || device->rank == args->root;
}

static bool device_counts_any(const ring_device *device, const ring_device_args *args,
                              const size_t *counts) {
  if (counts == NULL) return args->count > 0;
  for (int rank = 0; rank < device->size; rank++)
    if (counts[rank] > 0) return true;
  return false;
}

/* So the sum of all parts fits, too. */
static ring_status device_check_counts(const ring_device *device, const ring_device_args *args,
                                       const size_t *counts) {
  const size_t most = SIZE_MAX / ring_dtype_size(args->dtype) / (size_t)device->size;
  for (int rank = 0; counts != NULL && rank < device->size; rank++)
    if (counts[rank] > most)
      return ring_device_invalid(device, "%s: count %zu of rank %d is too large",
                                 ring_collective_name((uint8_t)args->collective), counts[rank],
                                 rank);
  if (args->count <= most) return RING_OK;
  return ring_device_invalid(device, "%s: count %zu is too large",
                             ring_collective_name((uint8_t)args->collective), args->count);
}

static ring_status device_check_memory(const ring_device *device, const ring_device_args *args) {
  const char *name = ring_collective_name((uint8_t)args->collective);
  bool message = args->collective == RING_COLLECTIVE_MESSAGE;
  if (message) {
    if (args->count == 0 || (args->sending ? args->input : args->output) != NULL) return RING_OK;
    return ring_device_invalid(device, "the memory of a message is NULL");
  }
  if (args->input == NULL && device_reads(device, args) &&
      device_counts_any(device, args, args->sends))
    return ring_device_invalid(device, "%s: input is NULL", name);
  if (args->output == NULL && device_writes(device, args) &&
      device_counts_any(device, args, args->receives))
    return ring_device_invalid(device, "%s: output is NULL", name);
  return RING_OK;
}

static ring_status device_check_args(const ring_device *device, const ring_device_args *args) {
  const char *name = ring_collective_name((uint8_t)args->collective);
  if (ring_dtype_size(args->dtype) == 0)
    return ring_device_invalid(device, "%s: %d is no dtype: pass a ring_dtype", name,
                               (int)args->dtype);
  if (ring_collective_reduces((uint8_t)args->collective) && !ring_op_allowed(args->op, args->dtype))
    return ring_device_invalid(device, "%s: the op %s does not work on %s", name,
                               ring_op_name(args->op), ring_dtype_name(args->dtype));
  if (args->root < 0 || args->root >= device->size)
    return ring_device_invalid(device, "%s: %d is no rank: ranks go from 0 to %d", name, args->root,
                               device->size - 1);
  if (args->collective == RING_COLLECTIVE_MESSAGE && args->root == device->rank)
    return ring_device_invalid(device, "a rank sends no message to itself: copy the memory");
  if (args->collective == RING_COLLECTIVE_ALLTOALLV &&
      (args->sends == NULL || args->receives == NULL))
    return ring_device_invalid(device, "%s: counts are NULL", name);
  ring_status status = device_check_counts(device, args, args->sends);
  if (status == RING_OK) status = device_check_counts(device, args, args->receives);
  if (status == RING_OK) status = device_check_memory(device, args);
  if (status == RING_OK) status = ring_device_check_pointer(device, args->input, args->dtype, name);
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

/* ---- Collectives --------------------------------------------------------------------------- */

ring_status ring_device_allreduce(ring_device *device, const void *input, void *output,
                                  size_t count, ring_dtype dtype, ring_op op, void *stream) {
  const ring_device_args args = {.collective = RING_COLLECTIVE_ALLREDUCE,
                                 .input = input,
                                 .output = output,
                                 .count = count,
                                 .dtype = dtype,
                                 .op = op,
                                 .stream = stream};
  return ring_device_run(device, &args);
}

ring_status ring_device_reduce(ring_device *device, const void *input, void *output, size_t count,
                               ring_dtype dtype, ring_op op, int root, void *stream) {
  const ring_device_args args = {.collective = RING_COLLECTIVE_REDUCE,
                                 .input = input,
                                 .output = output,
                                 .count = count,
                                 .dtype = dtype,
                                 .op = op,
                                 .root = root,
                                 .stream = stream};
  return ring_device_run(device, &args);
}

ring_status ring_device_broadcast(ring_device *device, const void *input, void *output,
                                  size_t count, ring_dtype dtype, int root, void *stream) {
  const ring_device_args args = {.collective = RING_COLLECTIVE_BROADCAST,
                                 .input = input,
                                 .output = output,
                                 .count = count,
                                 .dtype = dtype,
                                 .root = root,
                                 .stream = stream};
  return ring_device_run(device, &args);
}

ring_status ring_device_allgather(ring_device *device, const void *input, void *output,
                                  size_t count, ring_dtype dtype, void *stream) {
  const ring_device_args args = {.collective = RING_COLLECTIVE_ALLGATHER,
                                 .input = input,
                                 .output = output,
                                 .count = count,
                                 .dtype = dtype,
                                 .stream = stream};
  return ring_device_run(device, &args);
}

ring_status ring_device_reduce_scatter(ring_device *device, const void *input, void *output,
                                       size_t count, ring_dtype dtype, ring_op op, void *stream) {
  const ring_device_args args = {.collective = RING_COLLECTIVE_REDUCE_SCATTER,
                                 .input = input,
                                 .output = output,
                                 .count = count,
                                 .dtype = dtype,
                                 .op = op,
                                 .stream = stream};
  return ring_device_run(device, &args);
}

ring_status ring_device_alltoall(ring_device *device, const void *input, void *output, size_t count,
                                 ring_dtype dtype, void *stream) {
  const ring_device_args args = {.collective = RING_COLLECTIVE_ALLTOALL,
                                 .input = input,
                                 .output = output,
                                 .count = count,
                                 .dtype = dtype,
                                 .stream = stream};
  return ring_device_run(device, &args);
}

ring_status ring_device_alltoallv(ring_device *device, const void *input, const size_t *sends,
                                  void *output, const size_t *receives, ring_dtype dtype,
                                  void *stream) {
  const ring_device_args args = {.collective = RING_COLLECTIVE_ALLTOALLV,
                                 .input = input,
                                 .output = output,
                                 .sends = sends,
                                 .receives = receives,
                                 .dtype = dtype,
                                 .stream = stream};
  return ring_device_run(device, &args);
}

/* ---- Messages ------------------------------------------------------------------------------ */

ring_status ring_device_send(ring_device *device, const void *input, size_t count, ring_dtype dtype,
                             int peer, void *stream) {
  const ring_device_args args = {.collective = RING_COLLECTIVE_MESSAGE,
                                 .sending = true,
                                 .input = input,
                                 .count = count,
                                 .dtype = dtype,
                                 .root = peer,
                                 .stream = stream};
  return ring_device_run(device, &args);
}

ring_status ring_device_recv(ring_device *device, void *output, size_t count, ring_dtype dtype,
                             int peer, void *stream) {
  const ring_device_args args = {.collective = RING_COLLECTIVE_MESSAGE,
                                 .output = output,
                                 .count = count,
                                 .dtype = dtype,
                                 .root = peer,
                                 .stream = stream};
  return ring_device_run(device, &args);
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
