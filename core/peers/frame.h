/* SPDX-License-Identifier: Apache-2.0
 *
 * Frames: the units that travel on a link. A frame is a header of RING_HEADER_BYTES and a payload.
 * The header carries the signature of the call that the frame belongs to. Both ends of a link know
 * from their schedules which frame comes next, so a receiver compares the header with the expected
 * one. A difference means that the ranks are in different calls, or that the sender has failed.
 *
 *   0 length u32 | 4 kind u8 | 5 collective u8 | 6 op u8 | 7 dtype u8
 *   8 sequence u32 | 12 root i32 | 16 count u64 | 24 digest u64
 *   32 check of the payload u32 | 36 check of all bytes before u32
 *
 * The checks (checksum.h) find damage on the way. The check of the payload is 0 where the link has
 * a better check, or needs none because the bytes never leave the memory.
 *
 * A FAIL frame carries a status in `op`, the rank at fault in `root`, and the explanation as its
 * payload. A waiting rank sends a WAIT_REPORT between two frames (wait_report.h). A DESCRIPTION
 * precedes the first frame of a call whose array has one; its payload is the string, padded with
 * zeros.
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

/* The first bytes of a header, which the receiver knows before the header arrives. */
#define RING_FRAME_KNOWN_BYTES 32

typedef struct ring_frame {
  uint8_t kind;
  uint32_t length; /* of the payload, in bytes */
  ring_call call;
  uint32_t check; /* of the payload, or 0 */
} ring_frame;

void ring_frame_pack(const ring_frame *frame, uint8_t header[RING_HEADER_BYTES]);

/* Whether a header is undamaged; and the check of the payload in it. */
bool ring_frame_is_whole(const uint8_t header[RING_HEADER_BYTES]);
uint32_t ring_frame_check(const uint8_t header[RING_HEADER_BYTES]);

/* False when the header is damaged or not of this protocol. */
bool ring_frame_unpack(const uint8_t header[RING_HEADER_BYTES], ring_frame *frame);

#endif
