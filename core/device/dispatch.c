/* SPDX-License-Identifier: Apache-2.0 */
#include "device/dispatch.h"

#include "device/host_path.h"
#include "device/nccl_path.h"

/* A message has no number: only two ranks make the call. */
static ring_call dispatch_sign(ring_device *device, const ring_device_args *args) {
  bool message = args->collective == RING_COLLECTIVE_MESSAGE;
  ring_call call = {.collective = (uint8_t)args->collective,
                    .dtype = (uint8_t)args->dtype,
                    .root = args->root,
                    .count = args->count};
  if (ring_collective_reduces(call.collective)) call.op = (uint8_t)args->op;
  if (message) call.root = args->sending ? device->rank : args->root;
  if (message) return call;
  pthread_mutex_lock(&device->mutex);
  call.sequence = ++device->sequence;
  device->calls[call.sequence % RING_DEVICE_CALLS] = call;
  pthread_mutex_unlock(&device->mutex);
  return call;
}

/* A group through the host: one buffer after the other. */
static ring_status dispatch_each(ring_device *device, const ring_device_args *group) {
  ring_device_args args = *group;
  ring_status status = RING_OK;
  args.collective = RING_COLLECTIVE_ALLREDUCE;
  for (size_t i = 0; i < group->buffer_count && status == RING_OK; i++) {
    args.input = group->buffers[i].input;
    args.output = group->buffers[i].output;
    args.count = group->buffers[i].count;
    if (args.count > 0) status = ring_host_run(device, &args);
  }
  return status;
}

ring_status ring_device_dispatch(ring_device *device, const ring_device_args *args) {
  const ring_call call = dispatch_sign(device, args);
  if (ring_nccl_serves(device, args)) return ring_nccl_run(device, args, &call);
  if (args->collective == RING_COLLECTIVE_ALLREDUCE_GROUP) return dispatch_each(device, args);
  return ring_host_run(device, args);
}
