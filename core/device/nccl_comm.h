/* SPDX-License-Identifier: Apache-2.0
 *
 * NCCL's communicator of a device. It never blocks: a call that is in progress is polled, and ends with the
 * device's failure at the latest.
 */
#ifndef RING_DEVICE_NCCL_COMM_H
#define RING_DEVICE_NCCL_COMM_H

#include "device/device_state.h"

/* Makes the communicator from an id that all ranks have, within half of the call timeout and 120 s. False where that
 * fails on this rank or another one, which ends the init of all ranks; `problem` has the reason, "" where it is that
 * of another rank. The device may have failed, too. */
bool ring_nccl_open(ring_device *device, const ring_nccl_unique_id *id, char *problem, size_t size);

/* Waits until a call that has returned `result` is on its stream. Returns the failure of the device, which NCCL's
 * error becomes, when there is one. */
ring_status ring_nccl_complete(ring_device *device, ring_nccl_result result, const char *function);

/* Whether NCCL reports an error, for long enough that the hub would have reported a lost rank. Called by the watch
 * thread; false while a call is being made. */
bool ring_nccl_check(ring_device *device, ring_error *error);

/* Finalizes the communicator after all calls of all ranks have ended. It takes no longer than 30 s; then
 * ring_nccl_end aborts it. Returns the failure of the device when there is one. */
ring_status ring_nccl_finalize(ring_device *device);

/* Ends the communicator, if there is one, and all its work on the GPU. It may block for as long as work before on the
 * same streams runs, so a thread of its own calls it (detached.h). `device` is a ring_device. */
void ring_nccl_end(void *device);

#endif
