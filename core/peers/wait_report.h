/* SPDX-License-Identifier: Apache-2.0
 *
 * Wait reports: what ranks that wait tell each other, so that all know whom the whole job waits for. A
 * wait report says in which call its sender waits, and whom it suspects: each suspect with the call that it
 * was last known to be in. It is a frame of one size, which goes between two other frames over every
 * link that stands there. What a socket does not take of it at once goes before the next frame, and
 * what has come of one is kept until the rest does: a wait report never holds anything up.
 *
 *   frame   call of the sender; length and check of what follows
 *           count u8, three zeros, how long it has waited u32 (ms), then RING_SUSPECTS times
 *           rank i32, steps u32, state u8, collective u8, op u8, dtype u8, sequence u32, root i32,
 *           count u64, digest u64
 */
#ifndef RING_PEERS_WAIT_REPORT_H
#define RING_PEERS_WAIT_REPORT_H

#include "peers/frame.h"
#include "peers/peer_table.h"

#define RING_WAIT_REPORT_MOST_NS UINT64_C(10000000000) /* from one to its repetition */

/* Whether two wait reports suspect the same ranks, in the same calls. */
bool ring_wait_report_is_same(const ring_wait_report *one, const ring_wait_report *other);

/* Sends a wait report, or keeps it; one that is still kept whole is replaced. For a link that stands
 * between two frames. */
void ring_wait_report_send(ring_peer *peer, const ring_wait_report *report);

/* Sends the description of the array of a call, or keeps it; true when nothing is left of it. */
bool ring_wait_report_describe(ring_peer *peer, const ring_call *call, const char *description);

/* The description that a rank has sent of the array of its call, or "". */
const char *ring_wait_report_description(const ring_peer *peer, const ring_call *call);

/* Sends what is left of one; true when nothing is, or nothing can be sent any more. */
bool ring_wait_report_flush(ring_peer *peer);

/* Reads on in a wait report or description that is coming. 1: it is whole and kept; 0: not yet; or
 * -errno: -EBADMSG for one that was damaged or that no rank of this size says. */
int ring_wait_report_read(ring_peer *peer, int size);

/* Takes the header of a wait report, which has been read as that of a frame. */
void ring_wait_report_begin(ring_peer *peer, const uint8_t *header);

#endif
