/* SPDX-License-Identifier: Apache-2.0
 *
 * The hub: messages between rank 0 and every other rank, apart from the GPU. It is the failure detector of a
 * device, and it finds the rank that keeps others waiting:
 *
 *   rank k   its call is late ─ LATE ─▶ rank 0 ─ ASK ─▶ all ─ ANSWER: that call, or the last one ─▶ rank 0
 *                                       rank 0 fails the messages with its decision, which all ranks get
 *
 * One thread at a time uses a hub. ring_device_hub_report may be called by any.
 */
#ifndef RING_DEVICE_DEVICE_HUB_H
#define RING_DEVICE_DEVICE_HUB_H

#include "device/device_state.h"

/* Opens the messages and their links. Collective over the communicator of the device, which has the error. */
ring_status ring_device_hub_open(ring_device *device);

/* Answers what has been received. The device fails when a rank is lost or has reported a failure. */
void ring_device_hub_poll(ring_device *device);

/* Reports to all ranks that this rank cannot use NCCL. Every rank's hub.nccl_refused becomes true. */
void ring_device_hub_refuse_nccl(ring_device *device);

/* Asks which rank is at fault for a collective that has been late for so many seconds. The device fails when rank
 * 0 has decided, or does not answer within ring_device_hub_patience seconds. */
void ring_device_hub_report_late(ring_device *device, const ring_call *call, double seconds);
double ring_device_hub_patience(const ring_device *device);

/* The device has failed on this rank: all ranks get the error. An error that came from another rank before counts
 * instead. Returns the status of the failure, which becomes this thread's reason. */
ring_status ring_device_hub_report(ring_device *device, const ring_error *error);

/* The same for an error of CUDA: "rank 1 (host): WHAT failed with 719 (...)". */
ring_status ring_device_hub_report_cuda(ring_device *device, ring_cuda_result result,
                                        const char *what);

/* Collective; after a barrier. */
ring_status ring_device_hub_close(ring_device *device);

void ring_device_hub_free(ring_device *device);

#endif
