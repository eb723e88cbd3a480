/* SPDX-License-Identifier: Apache-2.0
 *
 * The watch thread of a device. It retires calls that have ended, and finds the causes that end other calls: a lost
 * rank, an error of NCCL or of the GPU, the call timeout, an abort. Then another thread ends NCCL's work on the GPU.
 */
#ifndef RING_DEVICE_WATCH_H
#define RING_DEVICE_WATCH_H

#include "device/device_state.h"

/* 0 or an errno. */
int ring_watch_begin(ring_device *device);

/* Ends the thread. The end of NCCL's work has begun then where the device has failed. */
void ring_watch_end(ring_device *device);

#endif
