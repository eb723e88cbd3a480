/* SPDX-License-Identifier: Apache-2.0
 *
 * The calls whose work is on streams of the GPU. All functions are called with the mutex of the device, and in
 * its context.
 */
#ifndef RING_DEVICE_PENDING_H
#define RING_DEVICE_PENDING_H

#include "device/device_state.h"

/* Adds a call that begins now. False without memory. */
bool ring_pending_add(ring_device *device, const ring_call *call, int peer);

/* The work of the call that was added last is on `stream`. */
ring_cuda_result ring_pending_record(ring_device *device, ring_cuda_stream stream);

/* Takes back the call that was added last. */
void ring_pending_drop(ring_device *device);

/* Forgets the calls that have ended, up to the first that has not. Returns what CUDA says otherwise. */
ring_cuda_result ring_pending_retire(ring_device *device);

/* The oldest call, when nothing has ended for as long as the call timeout; else NULL. */
const ring_pending *ring_pending_late(const ring_device *device);

/* How long nothing has ended since the oldest call began, in seconds. */
double ring_pending_age(const ring_device *device);

/* The pending call of that number; NULL: none. */
const ring_pending *ring_pending_find(const ring_device *device, uint32_t sequence);

void ring_pending_free(ring_device *device);

#endif
