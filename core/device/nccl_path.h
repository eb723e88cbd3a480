/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls that NCCL carries out: they are put on the stream, and watched.
 */
#ifndef RING_DEVICE_NCCL_PATH_H
#define RING_DEVICE_NCCL_PATH_H

#include "device/device_args.h"
#include "device/device_state.h"

/* Whether NCCL has this reduction. Data that only moves has any dtype. The same on every rank. */
bool ring_nccl_serves(const ring_device *device, const ring_device_args *args);

/* Puts the call on its stream. `call` is its signature. Called between enter and leave. */
ring_status ring_nccl_run(ring_device *device, const ring_device_args *args, const ring_call *call);

#endif
