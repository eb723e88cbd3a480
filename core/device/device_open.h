/* SPDX-License-Identifier: Apache-2.0
 *
 * The steps of opening a device: libraries and GPU of this rank, agreement of all, NCCL.
 */
#ifndef RING_DEVICE_DEVICE_OPEN_H
#define RING_DEVICE_DEVICE_OPEN_H

#include "device/device_state.h"

/* Chooses the path with all ranks, and opens NCCL where the path is NCCL. Collective over device->comm, whose error
 * explains. */
ring_status ring_device_choose(ring_device *device, const ring_device_options *options);

#endif
