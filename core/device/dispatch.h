/* SPDX-License-Identifier: Apache-2.0
 *
 * Gives a call its number and its path.
 */
#ifndef RING_DEVICE_DISPATCH_H
#define RING_DEVICE_DISPATCH_H

#include "device/device_args.h"
#include "device/device_state.h"

/* Carries out a call whose arguments were checked. Called between enter and leave. */
ring_status ring_device_dispatch(ring_device *device, const ring_device_args *args);

/* Enters, checks the arguments, carries out the call, and leaves. */
ring_status ring_device_run(ring_device *device, const ring_device_args *args);

#endif
