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

ring_status ring_device_dispatch(ring_device *device, const ring_device_args *args) {
  const ring_call call = dispatch_sign(device, args);
  if (ring_nccl_serves(device, args)) return ring_nccl_run(device, args, &call);
  return ring_host_run(device, args);
}
