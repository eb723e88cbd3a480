/* SPDX-License-Identifier: Apache-2.0
 *
 * NCCL's communicator of a device. It never blocks: a call that is in progress is polled, and ends with the
 * device's failure at the latest.
 */
#ifndef RING_DEVICE_NCCL_COMM_H
#define RING_DEVICE_NCCL_COMM_H

#include "device/device_state.h"

/* Makes the communicator from an id that all ranks have, within the call timeout. False where that fails on this
 * rank or another one; `problem` has the reason. The device may have failed, too. */
bool ring_nccl_open(ring_device *device, const ring_nccl_unique_id *id, char *problem, size_t size);

/* Waits until a call that has returned `result` is on its stream. Called without the mutex. Returns the failure
 * of the device, which NCCL's error becomes, when there is one. */
ring_status ring_nccl_settle(ring_device *device, ring_nccl_result result, const char *function);

/* What NCCL reports, for long enough that the hub would have reported a lost rank. False: no error. Called
 * with the mutex, by the watch thread. */
bool ring_nccl_check(ring_device *device, ring_error *error);

/* Ends all work of NCCL on the GPU. */
void ring_nccl_abort(ring_device *device);

/* Frees the communicator after all calls have ended, within the call timeout. */
void ring_nccl_close(ring_device *device);

#endif
