/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls through the host: pieces of the GPU's memory are copied down, the communicator works on them, and results
 * are copied up. While the communicator has one piece, the next is copied down and the last one up.
 *
 *   round        0        1        2        3
 *   down    [ 0 ][ 1 ][ 2 ]    [ 3 ]
 *   ranks        [   0   ][   1   ][   2   ][   3   ]
 *   up                    [ 0 ]    [ 1 ]    [ 2 ]    [ 3 ]
 */
#ifndef RING_DEVICE_HOST_PATH_H
#define RING_DEVICE_HOST_PATH_H

#include "device/device_args.h"
#include "device/device_state.h"

/* Carries the call out. Copies up may still be on the stream afterwards. Called between enter and leave. */
ring_status ring_host_run(ring_device *device, const ring_device_args *args);

#endif
