/* SPDX-License-Identifier: Apache-2.0 */
#include "device/host_path.h"

#include <stdlib.h>

#include "base/error.h"
#include "device/convert.h"
#include "device/device_hub.h"
#include "device/pending.h"
#include "device/pinned.h"

#define HOST_LEAST_BYTES ((size_t)1 << 20) /* of a round, where the call has as many */
#define HOST_ROUNDS 4                      /* that a shorter call is cut into */

/* One side of a call: parts that lie one behind another. A round takes the next elements of each part. */
typedef struct host_side {
  int parts;            /* 0: this rank has none */
  size_t count;         /* of a part, where `counts` is NULL */
  const size_t *counts; /* of each part */
} host_side;

typedef struct host_call {
  ring_device *device;
  const ring_device_args *args;
  host_side in, out;
  size_t step, rounds; /* elements of a part in a round */
  size_t *round_sends, *round_receives;
} host_call;

static size_t host_part(const host_side *side, int part) {
  return side->counts != NULL ? side->counts[part] : side->count;
}

/* Elements of a part in a round. */
static size_t host_piece(const host_call *call, const host_side *side, int part, size_t round) {
  size_t count = host_part(side, part), begin = round * call->step;
  if (begin >= count) return 0;
  return count - begin < call->step ? count - begin : call->step;
}

/* ---- Failures ------------------------------------------------------------------------------ */

static ring_status host_comm_failed(ring_device *device) {
  const ring_error *error = ring_comm_error(device->comm);
  if (error->status == RING_ABORTED && device->failed) return ring_device_check(device);
  return ring_device_hub_report(device, error);
}

/* ---- Copies -------------------------------------------------------------------------------- */

/* Begins to fill the next slot. */
static ring_pinned_slot *host_fill(const host_call *call, size_t round, ring_cuda_result *result) {
  ring_device *device = call->device;
  const host_side *side = &call->in;
  size_t width = ring_dtype_size(call->args->dtype), to = 0, from = 0;
  ring_pinned_slot *slot = ring_pinned_take(device, result);
  for (int part = 0; part < side->parts && *result == RING_CUDA_SUCCESS; part++) {
    size_t count = host_piece(call, side, part, round);
    const uint8_t *source = device_args_input(call->args, from + round * call->step);
    if (count > 0)
      *result = device->cuda.copy_down(slot->input + to, (ring_cuda_memory)(uintptr_t)source,
                                       count * width, device->pinned.down);
    to += count * width;
    from += host_part(side, part);
  }
  if (*result == RING_CUDA_SUCCESS)
    *result = device->cuda.event_record(slot->down, device->pinned.down);
  return slot;
}

/* Waits until an event has come. While NCCL's calls are pending, the decision about a late one comes first, which names
 * the rank at fault. */
static ring_status host_await(const host_call *call, ring_cuda_event event) {
  ring_device *device = call->device;
  ring_device_pause pause = {.seconds = device->call_timeout};
  if (ring_pending_count(device) > 0) pause.seconds += ring_device_hub_patience(device) + 1;
  for (;;) {
    ring_cuda_result result = device->cuda.event_query(event);
    if (result == RING_CUDA_SUCCESS) return RING_OK;
    if (result != RING_CUDA_NOT_READY)
      return ring_device_hub_report_cuda(device, result, RING_DEVICE_GPU_WORK);
    ring_status status = ring_device_pause_once(device, &pause, device_args_name(call->args));
    if (status != RING_OK) return ring_device_hub_report(device, ring_device_reason());
  }
}

/* Begins to copy the results of a round to the GPU. */
static ring_cuda_result host_drain(const host_call *call, size_t round,
                                   const ring_pinned_slot *slot, const uint8_t *results) {
  const ring_device *device = call->device;
  const host_side *side = &call->out;
  size_t width = ring_dtype_size(device_args_output_dtype(call->args)), from = 0, to = 0;
  for (int part = 0; part < side->parts; part++) {
    size_t count = host_piece(call, side, part, round);
    uint8_t *target = device_args_output(call->args, to + round * call->step);
    ring_cuda_result result = RING_CUDA_SUCCESS;
    if (count > 0)
      result = device->cuda.copy_up((ring_cuda_memory)(uintptr_t)target, results + from,
                                    count * width, device->pinned.up);
    if (result != RING_CUDA_SUCCESS) return result;
    from += count * width;
    to += host_part(side, part);
  }
  return device->cuda.event_record(slot->up, device->pinned.up);
}

/* ---- Rounds -------------------------------------------------------------------------------- */

static ring_status host_alltoallv(const host_call *call, size_t round,
                                  const ring_pinned_slot *slot) {
  for (int rank = 0; rank < call->device->size; rank++) {
    call->round_sends[rank] = host_piece(call, &call->in, rank, round);
    call->round_receives[rank] = host_piece(call, &call->out, rank, round);
  }
  return ring_alltoallv(call->device->comm, slot->input, call->round_sends, slot->output,
                        call->round_receives, call->args->dtype);
}

static ring_status host_allreduce(const host_call *call, const ring_pinned_slot *slot,
                                  size_t count) {
  const ring_device_args *args = call->args;
  ring_comm *comm = call->device->comm;
  uint8_t *input = slot->input, *output = slot->output;
  if (!args->converts) {
    if (args->scaled) ring_comm_scale(comm, args->prescale, args->postscale);
    return ring_allreduce(comm, input, input, count, args->dtype, args->op);
  }
  ring_convert(args->dtype, input, args->wire, output, count, args->prescale);
  ring_status status = ring_allreduce(comm, output, output, count, args->wire, args->op);
  ring_convert(args->wire, output, args->dtype, input, count, args->postscale);
  return status;
}

/* One call of the communicator on a slot, or the conversion. *results: where its results are. */
static ring_status host_round(const host_call *call, size_t round, const ring_pinned_slot *slot,
                              const uint8_t **results) {
  const ring_device_args *args = call->args;
  ring_comm *comm = call->device->comm;
  uint8_t *input = slot->input, *output = slot->output;
  const host_side *side = call->in.parts > 0 ? &call->in : &call->out;
  size_t count = side->counts != NULL ? 0 : host_piece(call, side, 0, round);
  *results = output;
  if (args->casts) {
    ring_convert(args->dtype, input, args->wire, output, count, args->prescale);
    return RING_OK;
  }
  switch (args->collective) {
  case RING_COLLECTIVE_ALLREDUCE:
    *results = input;
    return host_allreduce(call, slot, count);
  case RING_COLLECTIVE_REDUCE:
    *results = input;
    return ring_reduce(comm, input, input, count, args->dtype, args->op, args->root);
  case RING_COLLECTIVE_BROADCAST:
    *results = input;
    return ring_broadcast(comm, input, input, count, args->dtype, args->root);
  case RING_COLLECTIVE_ALLGATHER:
    return ring_allgather(comm, input, output, count, args->dtype);
  case RING_COLLECTIVE_REDUCE_SCATTER:
    return ring_reduce_scatter(comm, input, output, count, args->dtype, args->op);
  case RING_COLLECTIVE_ALLTOALL:
    return ring_alltoall(comm, input, output, count, args->dtype);
  case RING_COLLECTIVE_ALLTOALLV:
    return host_alltoallv(call, round, slot);
  default:
    if (call->in.parts > 0) return ring_send(comm, input, count, args->dtype, args->root);
    return ring_recv(comm, output, count, args->dtype, args->root);
  }
}

static ring_status host_rounds(const host_call *call) {
  ring_device *device = call->device;
  const uint8_t *results;
  ring_cuda_result result = ring_pinned_begin(device, call->args->stream);
  if (result != RING_CUDA_SUCCESS)
    return ring_device_hub_report_cuda(device, result, "an event on the stream");
  ring_status status = RING_OK;
  if (device->pinned.page_locked < 0) /* a copy would block for as long as work before it */
    status = host_await(call, device->pinned.begin);
  if (status != RING_OK) return status;
  ring_pinned_slot *next = host_fill(call, 0, &result);
  for (size_t round = 0; round < call->rounds; round++) {
    ring_pinned_slot *slot = next;
    if (result == RING_CUDA_SUCCESS && round + 1 < call->rounds)
      next = host_fill(call, round + 1, &result);
    if (result != RING_CUDA_SUCCESS)
      return ring_device_hub_report_cuda(device, result, "a copy from the GPU");
    status = host_await(call, slot->down);
    if (status != RING_OK) return status;
    if (host_round(call, round, slot, &results) != RING_OK) return host_comm_failed(device);
    result = host_drain(call, round, slot, results);
    if (result != RING_CUDA_SUCCESS)
      return ring_device_hub_report_cuda(device, result, "a copy to the GPU");
  }
  result = ring_pinned_end(device, call->args->stream);
  if (result == RING_CUDA_SUCCESS) return RING_OK;
  return ring_device_hub_report_cuda(device, result, "an event on the stream");
}

/* ---- Preparing ----------------------------------------------------------------------------- */

/* The parts of both sides. */
static void host_shape(host_call *call) {
  const ring_device_args *args = call->args;
  int size = call->device->size;
  bool root = call->device->rank == args->root;
  int in = 1, out = 1;
  if (args->collective == RING_COLLECTIVE_ALLGATHER) out = size;
  if (args->collective == RING_COLLECTIVE_REDUCE_SCATTER) in = size;
  if (args->collective == RING_COLLECTIVE_ALLTOALL || args->collective == RING_COLLECTIVE_ALLTOALLV)
    in = out = size;
  if (args->collective == RING_COLLECTIVE_REDUCE) out = root;
  if (args->collective == RING_COLLECTIVE_BROADCAST) in = root;
  if (args->collective == RING_COLLECTIVE_MESSAGE) {
    in = args->sending;
    out = !in;
  }
  call->in = (host_side){in, args->count, args->sends};
  call->out = (host_side){out, args->count, args->receives};
}

/* Bytes of an element in the wider half of a slot. */
static size_t host_width(const ring_device_args *args) {
  size_t width = ring_dtype_size(args->dtype);
  size_t wire = args->converts || args->casts ? ring_dtype_size(args->wire) : 0;
  return wire > width ? wire : width;
}

/* How many elements of a part a round takes; the same on every rank. `most`: elements of the longest part. */
static void host_cut(host_call *call, size_t most) {
  ring_collective collective = call->args->collective;
  size_t width = host_width(call->args), parts = 1;
  if (collective == RING_COLLECTIVE_ALLGATHER || collective == RING_COLLECTIVE_REDUCE_SCATTER ||
      collective == RING_COLLECTIVE_ALLTOALL || collective == RING_COLLECTIVE_ALLTOALLV)
    parts = (size_t)call->device->size;
  size_t bytes = most / HOST_ROUNDS * width * parts;
  if (bytes < HOST_LEAST_BYTES) bytes = HOST_LEAST_BYTES;
  if (bytes > RING_PINNED_BYTES) bytes = RING_PINNED_BYTES;
  call->step = bytes / width / parts;
  if (call->step == 0) call->step = 1;
  call->rounds = most == 0 ? 1 : (most + call->step - 1) / call->step;
}

/* The longest part of any rank. */
static ring_status host_longest(const host_call *call, size_t *most) {
  uint64_t own = 0, all = 0;
  for (int rank = 0; rank < call->device->size; rank++) {
    if (call->in.counts[rank] > own) own = call->in.counts[rank];
    if (call->out.counts[rank] > own) own = call->out.counts[rank];
  }
  if (ring_allreduce(call->device->comm, &own, &all, 1, RING_UINT64, RING_MAX) != RING_OK)
    return host_comm_failed(call->device);
  *most = (size_t)all;
  return RING_OK;
}

static ring_status host_prepare(host_call *call) {
  ring_device *device = call->device;
  size_t most = call->args->count;
  ring_cuda_result result;
  ring_error error;
  if (ring_pinned_ready(device, &result) != RING_OK) {
    if (result != RING_CUDA_SUCCESS)
      return ring_device_hub_report_cuda(device, result, "cuStreamCreate");
    ring_error_no_memory(&error, device->rank);
    return ring_device_hub_report(device, &error);
  }
  host_shape(call);
  call->round_sends = calloc(2 * (size_t)device->size, sizeof *call->round_sends);
  if (call->round_sends == NULL) {
    ring_error_no_memory(&error, device->rank);
    return ring_device_hub_report(device, &error);
  }
  call->round_receives = call->round_sends + device->size;
  ring_status status = RING_OK;
  if (call->in.counts != NULL) status = host_longest(call, &most);
  if (status != RING_OK) return status;
  host_cut(call, most);
  return RING_OK;
}

ring_status ring_host_run(ring_device *device, const ring_device_args *args) {
  host_call call = {.device = device, .args = args};
  ring_status status = host_prepare(&call);
  if (status == RING_OK) status = host_rounds(&call);
  if (status != RING_OK) ring_pinned_await(device); /* copies may still write the caller's memory */
  free(call.round_sends);
  return status;
}
