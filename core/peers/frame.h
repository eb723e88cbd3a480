/* SPDX-License-Identifier: Apache-2.0
 *
 * Frames: what travels on a link. Every frame is a header of RING_HEADER_BYTES and a payload, and
 * every header carries the signature of the call it belongs to. Both ends of a link know from their
 * schedules which frame comes next, so a receiver compares the header with the one it expects; a
 * difference means that the ranks called different things, or that the sender failed.
 *
 *   0 length u32 | 4 kind u8 | 5 collective u8 | 6 op u8 | 7 dtype u8
 *   8 sequence u32 | 12 root i32 | 16 count u64 | 24 digest u64
 *   32 check of the payload u32 | 36 check of all bytes before u32
 *
 * The checks (checksum.h) find what was damaged on the way. Where a link has a better check of its
 * own, or none is needed because the bytes never leave the memory, that of the payload is 0.
 *
 * A FAIL frame carries a status in `op`, the rank at fault in `root`, and the explanation as its
 * payload. A WAIT_REPORT comes between frames from a rank that waits (wait_report.h), a DESCRIPTION before the
 * first frame of a call whose array has one: its text, padded with zeros.
 */
#ifndef RING_PEERS_FRAME_H
#define RING_PEERS_FRAME_H

#include "base/call.h"

enum {
  RING_FRAME_DATA = 1,
  RING_FRAME_FAIL = 2,
  RING_FRAME_WAIT_REPORT = 3,
  RING_FRAME_DESCRIPTION = 4
};

/* Of a header: what its receiver knows before it comes. */
#define RING_FRAME_KNOWN_BYTES 32

typedef struct ring_frame {
  uint8_t kind;
  uint32_t length; /* of the payload, in bytes */
  ring_call call;
  uint32_t check; /* of the payload, or 0 */
} ring_frame;

void ring_frame_pack(const ring_frame *frame, uint8_t header[RING_HEADER_BYTES]);

/* Whether a header is as it was sent; and the check of the payload that it tells. */
bool ring_frame_is_whole(const uint8_t header[RING_HEADER_BYTES]);
uint32_t ring_frame_check(const uint8_t header[RING_HEADER_BYTES]);

/* False when the header was damaged or cannot have come from this protocol. */
bool ring_frame_unpack(const uint8_t header[RING_HEADER_BYTES], ring_frame *frame);

#endif
