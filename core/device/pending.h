/* SPDX-License-Identifier: Apache-2.0
 *
 * The calls whose work is on streams of the GPU. The thread that makes calls adds, records and drops; the watch thread
 * retires. Both are in the context of the device. CUDA is called without the mutex of the device, for CUDA may block
 * where the queue of the GPU is full.
 */
#ifndef RING_DEVICE_PENDING_H
#define RING_DEVICE_PENDING_H

#include "device/device_state.h"

/* Adds a call that begins now. False without memory. */
bool ring_pending_add(ring_device *device, const ring_call *call, int peer);

/* The work of the call that was added last is on `stream`. */
ring_cuda_result ring_pending_record(ring_device *device, ring_cuda_stream stream);

/* Drops the call that was added last. */
void ring_pending_drop(ring_device *device);

/* Removes the calls that have ended, up to the first that has not. Returns an error of CUDA. */
ring_cuda_result ring_pending_retire(ring_device *device);

size_t ring_pending_count(ring_device *device);

/* Copies the oldest call, when nothing has ended for as long as its patience, and for how many seconds. The patience
 * is the call timeout. A message has some seconds more, for its peer may wait for a collective, whose decision then
 * comes first. */
bool ring_pending_late(ring_device *device, ring_pending *late, double *age);

/* Destroys the events. No thread uses the list any more. */
void ring_pending_free(ring_device *device);

#endif
