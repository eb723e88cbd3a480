/* SPDX-License-Identifier: Apache-2.0
 *
 * The FAIL frame: carries a ring_error from a rank that fails to its peers.
 *
 *   frame   op: the status; root: the rank at fault; length and check of the message
 *           the message, without a zero at its end
 */
#ifndef RING_ENGINE_DETECTOR_FAILURE_FRAME_H
#define RING_ENGINE_DETECTOR_FAILURE_FRAME_H

#include "peers/frame.h"
#include "transport/link.h"

/* The most time that a rank spends on sending or receiving FAIL frames. */
#define RING_FAILURE_FRAME_NS UINT64_C(200000000)

#define RING_FAILURE_FRAME_BYTES (RING_HEADER_BYTES + sizeof(((ring_error *)0)->message))

/* Packs an error. Returns the length of the frame. */
size_t ring_failure_frame_pack(const ring_error *error, uint8_t frame[RING_FAILURE_FRAME_BYTES]);

/* Receives the message behind the header `fail`, with a zero at its end. The message is "" when it
 * is damaged or does not come in time. */
void ring_failure_frame_receive(ring_link *link, const ring_frame *fail, char *message,
                                size_t size);

/* Sleeps for 10 ms at most, or until one of `events` may happen on the link. */
void ring_failure_frame_sleep(ring_link *link, short events);

#endif
