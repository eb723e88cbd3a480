/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls of a communicator on memory of a GPU. The communicator has checked the arguments as those of any call; a device
 * numbers its calls, and has a path for each.
 */
#include <stdlib.h>

#include "api/collective.h"
#include "base/error.h"
#include "device/dispatch.h"

static ring_status placed_no_memory(const ring_device *device) {
  return ring_error_no_memory(ring_device_reason(), device->rank);
}

static ring_device_args placed_args(const collective_args *call, void *stream) {
  const ring_call *signature = &call->work.outline.call;
  return (ring_device_args){.collective = (ring_collective)signature->collective,
                            .input = call->work.input,
                            .output = call->work.output,
                            .count = signature->count,
                            .dtype = (ring_dtype)signature->dtype,
                            .op = (ring_op)signature->op,
                            .root = signature->root,
                            .stream = stream};
}

static ring_status placed_message(ring_device *device, const collective_args *call, void *stream) {
  ring_device_args args = placed_args(call, stream);
  args.sending = args.root == device->rank;
  args.root = call->work.outline.peer;
  return ring_device_run(device, &args);
}

/* Offsets become the counts between them. */
static ring_status placed_alltoallv(ring_device *device, const collective_args *call,
                                    void *stream) {
  const uint64_t *from = call->work.outline.parts.offsets,
                 *to = call->work.outline.received.offsets;
  size_t size = (size_t)device->size;
  size_t *counts = calloc(2 * size, sizeof *counts);
  if (counts == NULL) return placed_no_memory(device);
  for (size_t rank = 0; rank < size; rank++) {
    counts[rank] = from[rank + 1] - from[rank];
    counts[size + rank] = to[rank + 1] - to[rank];
  }
  ring_device_args args = placed_args(call, stream);
  args.sends = counts;
  args.receives = counts + size;
  ring_status status = ring_device_run(device, &args);
  free(counts);
  return status;
}

/* ---- Groups -------------------------------------------------------------------------------- */

/* The buffers of a dtype, from the first one that has it, travel together. */
static ring_status placed_reduce_dtype(ring_device *device, const collective_args *call,
                                       ring_dtype dtype, ring_buffer *buffers, void *stream) {
  size_t count = 0;
  for (size_t i = 0; i < call->item_count; i++) {
    const ring_group_item *item = &call->store->items[i];
    if (item->dtype == dtype)
      buffers[count++] = (ring_buffer){item->input, item->output, item->count};
  }
  double prescale = call->scaled ? call->prescale : 1,
         postscale = call->scaled ? call->postscale : 1;
  if (count == 0) return RING_OK;
  return ring_device_allreduce_group(device, buffers, count, dtype, dtype,
                                     (ring_op)call->work.outline.call.op, prescale, postscale,
                                     stream);
}

static ring_status placed_allreduce_group(ring_device *device, const collective_args *call,
                                          void *stream) {
  ring_buffer *buffers = calloc(call->item_count + 1, sizeof *buffers);
  ring_status status = RING_OK;
  if (buffers == NULL) return placed_no_memory(device);
  for (int dtype = 0; status == RING_OK && dtype < RING_DTYPE_COUNT; dtype++)
    status = placed_reduce_dtype(device, call, (ring_dtype)dtype, buffers, stream);
  free(buffers);
  return status;
}

/* Another group: one call for each buffer. */
static ring_status placed_each(ring_device *device, const collective_args *call, void *stream) {
  ring_device_args args = placed_args(call, stream);
  ring_status status = RING_OK;
  args.collective = (ring_collective)ring_collective_of_group((uint8_t)args.collective);
  for (size_t i = 0; status == RING_OK && i < call->item_count; i++) {
    const ring_group_item *item = &call->store->items[i];
    args.input = item->input;
    args.output = item->output;
    args.count = item->count;
    args.dtype = item->dtype;
    status = ring_device_run(device, &args);
  }
  return status;
}

/* ---- All ----------------------------------------------------------------------------------- */

static ring_status placed_scaled(ring_device *device, const collective_args *call, void *stream) {
  const ring_call *signature = &call->work.outline.call;
  const ring_buffer buffer = {call->work.input, call->work.output, signature->count};
  const ring_dtype dtype = (ring_dtype)signature->dtype;
  if (signature->collective != RING_COLLECTIVE_ALLREDUCE)
    return ring_error_set(
        ring_device_reason(), RING_UNSUPPORTED, device->rank, 0,
        "%s of arrays on GPUs takes no prescale and no postscale: multiply the array",
        ring_collective_name(signature->collective));
  return ring_device_allreduce_group(device, &buffer, 1, dtype, dtype, (ring_op)signature->op,
                                     call->prescale, call->postscale, stream);
}

static ring_status placed_call(ring_device *device, const collective_args *call, void *stream) {
  const uint8_t collective = call->work.outline.call.collective;
  const ring_device_args args = placed_args(call, stream);
  if (call->scaled && collective != RING_COLLECTIVE_ALLREDUCE_GROUP)
    return placed_scaled(device, call, stream);
  switch (collective) {
  case RING_COLLECTIVE_ALLREDUCE:
  case RING_COLLECTIVE_REDUCE:
  case RING_COLLECTIVE_REDUCE_SCATTER:
  case RING_COLLECTIVE_BROADCAST:
  case RING_COLLECTIVE_ALLGATHER:
  case RING_COLLECTIVE_ALLTOALL:
    return ring_device_run(device, &args);
  case RING_COLLECTIVE_ALLTOALLV:
    return placed_alltoallv(device, call, stream);
  case RING_COLLECTIVE_MESSAGE:
    return placed_message(device, call, stream);
  case RING_COLLECTIVE_ALLREDUCE_GROUP:
    return placed_allreduce_group(device, call, stream);
  case RING_COLLECTIVE_ALLGATHER_GROUP:
  case RING_COLLECTIVE_REDUCE_SCATTER_GROUP:
  case RING_COLLECTIVE_BROADCAST_GROUP:
    return placed_each(device, call, stream);
  default:
    return ring_error_set(ring_device_reason(), RING_UNSUPPORTED, device->rank, 0,
                          "%s takes no arrays on GPUs: copy the array to the host",
                          ring_collective_name(collective));
  }
}

static ring_status placed_run(ring_device *device, const collective_args *call, void *stream,
                              ring_error *error) {
  ring_status status = ring_device_check(device);
  if (status == RING_OK) status = placed_call(device, call, stream);
  if (status != RING_OK) *error = *ring_device_reason();
  return status;
}

void ring_comm_on_device(ring_comm *comm, ring_device *device, void *stream) {
  ring_comm_place(comm, &(ring_place){placed_run, device, stream});
}
