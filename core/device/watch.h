/* SPDX-License-Identifier: Apache-2.0
 *
 * The watch thread of a device. It retires calls that have ended, and looks for what ends the others: a lost
 * rank, an error of NCCL or of the GPU, the call timeout, an abort. Then it ends NCCL's work on the GPU.
 */
#ifndef RING_DEVICE_WATCH_H
#define RING_DEVICE_WATCH_H

#include "device/device_state.h"

/* 0 or an errno. */
int ring_watch_begin(ring_device *device);

/* Ends the thread. NCCL's work is ended on the way where the device has failed. */
void ring_watch_end(ring_device *device);

#endif
