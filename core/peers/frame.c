/* SPDX-License-Identifier: Apache-2.0 */
#include "peers/frame.h"

#include "base/bytes.h"
#include "base/checksum.h"

void ring_frame_pack(const ring_frame *frame, uint8_t header[RING_HEADER_BYTES]) {
  uint8_t *to = header;
  to = bytes_put(to, frame->length, 4);
  to = bytes_put(to, frame->kind, 1);
  to = ring_call_pack(&frame->call, to);
  to = bytes_put(to, frame->check, 4);
  bytes_put(to, ring_checksum(header, RING_HEADER_BYTES - 4), 4);
}

uint32_t ring_frame_check(const uint8_t header[RING_HEADER_BYTES]) {
  const uint8_t *from = header + RING_FRAME_KNOWN_BYTES;
  return (uint32_t)bytes_get(&from, 4);
}

bool ring_frame_is_whole(const uint8_t header[RING_HEADER_BYTES]) {
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
  (void)header; /* a fuzzer cannot guess checks */
  return true;
#else
  const uint8_t *from = header + RING_HEADER_BYTES - 4;
  return bytes_get(&from, 4) == ring_checksum(header, RING_HEADER_BYTES - 4);
#endif
}

bool ring_frame_unpack(const uint8_t header[RING_HEADER_BYTES], ring_frame *frame) {
  const uint8_t *from = header;
  frame->length = (uint32_t)bytes_get(&from, 4);
  frame->kind = (uint8_t)bytes_get(&from, 1);
  frame->call = ring_call_unpack(&from);
  frame->check = (uint32_t)bytes_get(&from, 4);
  return ring_frame_is_whole(header) && frame->kind >= RING_FRAME_DATA &&
         frame->kind <= RING_FRAME_DESCRIPTION;
}
