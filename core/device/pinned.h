/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory of the host between the GPU and the communicator: three slots in turn, so that while one is reduced the
 * next is filled and the last is copied back. It is memory that the ranks of a host share, page-locked where CUDA
 * can. Functions return what CUDA does; they are called between enter and leave.
 */
#ifndef RING_DEVICE_PINNED_H
#define RING_DEVICE_PINNED_H

#include "device/device_state.h"

/* Makes it at the first use. RING_OK, or *result is why not; RING_CUDA_SUCCESS: without memory. */
ring_status ring_pinned_ready(ring_device *device, ring_cuda_result *result);

/* Copies wait for what is on the user's stream now. */
ring_cuda_result ring_pinned_begin(ring_device *device, ring_cuda_stream stream);

/* The user's stream waits for the copies to the GPU. */
ring_cuda_result ring_pinned_end(ring_device *device, ring_cuda_stream stream);

/* The next slot, which copies from the GPU may fill: they wait for its last copy to the GPU. */
ring_pinned_slot *ring_pinned_take(ring_device *device, ring_cuda_result *result);

/* Waits until no copy uses the memory. False when that takes longer than 5 s. */
bool ring_pinned_await(const ring_device *device);

void ring_pinned_free(ring_device *device);

#endif
