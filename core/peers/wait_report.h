/* SPDX-License-Identifier: Apache-2.0
 *
 * Wait reports: waiting ranks send each other the ranks that they wait for, so that every rank finds
 * the rank that the whole job waits for. A wait report names the call in which its sender waits,
 * and its suspects, each with the call that the suspect was last known to be in. It is a frame of
 * one size, sent between two other frames on every link. Bytes that the socket does not take at
 * once are sent before the next frame, and a report received in part is kept until the rest
 * arrives: a wait report never blocks.
 *
 *   frame   call of the sender; length and check of the payload
 *   payload count u8, three zeros, time waited u32 (ms), then RING_SUSPECTS times
 *           rank i32, steps u32, state u8, collective u8, op u8, dtype u8, sequence u32, root i32,
 *           count u64, digest u64
 *
 * The description of a call's array travels in the same place, in a frame of the same size.
 */
#ifndef RING_PEERS_WAIT_REPORT_H
#define RING_PEERS_WAIT_REPORT_H

#include "peers/frame.h"
#include "peers/peer_table.h"

#define RING_WAIT_REPORT_MOST_NS UINT64_C(10000000000) /* from one to its repetition */

/* Whether two wait reports suspect the same ranks, in the same calls. */
bool ring_wait_report_is_same(const ring_wait_report *one, const ring_wait_report *other);

/* Sends a wait report, or keeps it in the outbox, where it replaces a report that has not begun to
 * be sent. The link must stand between two frames. */
void ring_wait_report_send(ring_peer *peer, const ring_wait_report *report);

/* Sends the description of a call's array, or keeps it. True when all of it has been sent. */
bool ring_wait_report_describe(ring_peer *peer, const ring_call *call, const char *description);

/* The description that the peer has sent of the array of its call, or "". */
const char *ring_wait_report_description(const ring_peer *peer, const ring_call *call);

/* Sends the rest of the outbox. True when it is empty, or nothing can be sent any more. */
bool ring_wait_report_flush(ring_peer *peer);

/* Reads on in a wait report or description. 1: all of it has been received; 0: not yet; else
 * -errno: -EBADMSG for bytes that were damaged or that no rank of a job of this size sends. */
int ring_wait_report_read(ring_peer *peer, int size);

/* Begins a wait report or description whose header has been read as that of a frame. */
void ring_wait_report_begin(ring_peer *peer, const uint8_t *header);

#endif
