/* SPDX-License-Identifier: Apache-2.0
 *
 * Frames of messages. They have the header of all frames (peers/frame.h), so that an engine which is still in
 * the last collective of opening takes them for frames of a later call and leaves them.
 *
 *   EAGER    a short message: its payload follows
 *   REQUEST  a message that waits at its sender: no payload
 *   READY    the receiver of that message wants its payload, or none of it
 *   DATA     a piece of that payload
 *   CREDIT   the receiver has room for so many bytes of short messages again
 *   END      the sender of the frame has called close
 *   TOKEN    of the barrier that ends close
 *
 *   field of the header   op: kind; dtype; root: tag; count: bytes; digest: number of the message
 */
#ifndef RING_MESSAGES_MESSAGE_FRAME_H
#define RING_MESSAGES_MESSAGE_FRAME_H

#include "peers/frame.h"

/* The longest short message, and how many bytes of them may wait at a receiver for each sender. */
#define RING_EAGER_BYTES ((size_t)64 * 1024)
#define RING_EAGER_WINDOW ((uint64_t)1024 * 1024)

/* How many long messages of each sender may wait at a receiver. */
#define RING_REQUESTS_MOST (UINT32_C(1) << 20)

/* The room of the window that a short message takes. */
static inline uint64_t message_cost(uint64_t bytes) {
  return bytes + 128;
}

typedef enum ring_message_kind {
  RING_MESSAGE_NONE = 0, /* of opening: it does nothing */
  RING_MESSAGE_EAGER = 1,
  RING_MESSAGE_REQUEST = 2,
  RING_MESSAGE_READY = 3,
  RING_MESSAGE_DATA = 4,
  RING_MESSAGE_CREDIT = 5,
  RING_MESSAGE_END = 6,
  RING_MESSAGE_TOKEN = 7,
  RING_MESSAGE_FAIL = 8 /* a FAIL frame: dtype: the status; tag: the rank at fault */
} ring_message_kind;

typedef struct ring_message_frame {
  ring_message_kind kind;
  uint8_t dtype;
  int32_t tag;
  uint32_t length; /* of the payload */
  uint64_t bytes;  /* of the message; of READY: 0 where no payload is wanted */
  uint64_t number;
  uint32_t check; /* of the payload */
} ring_message_frame;

void ring_message_frame_pack(const ring_message_frame *frame, uint8_t header[RING_HEADER_BYTES]);

typedef enum ring_message_header {
  RING_MESSAGE_HEADER_BAD,  /* damaged, or no rank sends it */
  RING_MESSAGE_HEADER_SKIP, /* of opening: `length` bytes follow that concern nobody any more */
  RING_MESSAGE_HEADER_GOOD
} ring_message_header;

ring_message_header ring_message_frame_unpack(const uint8_t header[RING_HEADER_BYTES],
                                              ring_message_frame *frame);

#endif
