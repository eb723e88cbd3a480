/* SPDX-License-Identifier: Apache-2.0 */
#include "messages/message_frame.h"

#include "base/dtype.h"
#include "peers/outbox.h"

void ring_message_frame_pack(const ring_message_frame *frame, uint8_t header[RING_HEADER_BYTES]) {
  const ring_frame whole = {.kind = RING_FRAME_DATA,
                            .length = frame->length,
                            .call = {.collective = RING_COLLECTIVE_MESSAGE,
                                     .op = (uint8_t)frame->kind,
                                     .dtype = frame->dtype,
                                     .root = frame->tag,
                                     .count = frame->bytes,
                                     .digest = frame->number},
                            .check = frame->check};
  ring_frame_pack(&whole, header);
}

/* Whether tag, dtype and bytes can be those of a message. */
static bool message_frame_is_message(const ring_message_frame *frame) {
  size_t width = ring_dtype_size((ring_dtype)frame->dtype);
  return frame->tag >= 0 && width > 0 && frame->bytes % width == 0 && frame->bytes <= SIZE_MAX / 2;
}

static bool message_frame_is_good(const ring_message_frame *frame) {
  switch (frame->kind) {
  case RING_MESSAGE_EAGER:
    return message_frame_is_message(frame) && frame->bytes <= RING_EAGER_BYTES &&
           frame->length == frame->bytes;
  case RING_MESSAGE_REQUEST:
    return message_frame_is_message(frame) && frame->length == 0;
  case RING_MESSAGE_DATA:
    return frame->length > 0 && frame->length <= RING_CHUNK_BYTES;
  case RING_MESSAGE_CREDIT:
    return frame->length == 0 && frame->bytes <= RING_EAGER_WINDOW;
  case RING_MESSAGE_TOKEN:
    return frame->length == 0 && frame->number < 32;
  case RING_MESSAGE_READY:
  case RING_MESSAGE_END:
    return frame->length == 0;
  default:
    return false;
  }
}

ring_message_header ring_message_frame_unpack(const uint8_t header[RING_HEADER_BYTES],
                                              ring_message_frame *frame) {
  ring_frame whole;
  if (!ring_frame_unpack(header, &whole)) return RING_MESSAGE_HEADER_BAD;
  *frame = (ring_message_frame){.kind = (ring_message_kind)whole.call.op,
                                .dtype = whole.call.dtype,
                                .tag = whole.call.root,
                                .length = whole.length,
                                .bytes = whole.call.count,
                                .number = whole.call.digest,
                                .check = whole.check};
  if (whole.kind == RING_FRAME_FAIL) {
    frame->kind = RING_MESSAGE_FAIL;
    frame->dtype = whole.call.op;
    bool good = whole.length < sizeof(((ring_error *)0)->message);
    return good ? RING_MESSAGE_HEADER_GOOD : RING_MESSAGE_HEADER_BAD;
  }
  if (whole.kind != RING_FRAME_DATA) {
    frame->kind = RING_MESSAGE_NONE; /* its op is that of a collective */
    return whole.length == RING_WAIT_REPORT_BYTES ? RING_MESSAGE_HEADER_SKIP
                                                  : RING_MESSAGE_HEADER_BAD;
  }
  bool good = whole.call.collective == RING_COLLECTIVE_MESSAGE && message_frame_is_good(frame);
  return good ? RING_MESSAGE_HEADER_GOOD : RING_MESSAGE_HEADER_BAD;
}
