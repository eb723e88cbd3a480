/* SPDX-License-Identifier: Apache-2.0 */
#include "check.h"
#include "peers/frame.h"

static const ring_frame sample = {.kind = RING_FRAME_DATA,
                                  .length = 0x01020304,
                                  .call = {RING_COLLECTIVE_BROADCAST, RING_SUM, RING_FLOAT32, 17, 2,
                                           UINT64_C(1) << 40, UINT64_C(0xfedcba9876543210)}};

static void test_a_header_survives(void) {
  uint8_t header[RING_HEADER_BYTES];
  ring_frame frame;
  ring_frame_pack(&sample, header);
  CHECK(ring_frame_unpack(header, &frame));
  CHECK_INT(frame.kind, sample.kind);
  CHECK_INT(frame.length, sample.length);
  CHECK_INT(frame.call.collective, sample.call.collective);
  CHECK_INT(frame.call.op, sample.call.op);
  CHECK_INT(frame.call.dtype, sample.call.dtype);
  CHECK_INT(frame.call.sequence, sample.call.sequence);
  CHECK_INT(frame.call.root, sample.call.root);
  CHECK_INT(frame.call.count, sample.call.count);
  CHECK(frame.call.digest == sample.call.digest);
}

static void test_the_bytes_are_those_of_the_protocol(void) {
  static const uint8_t expected[RING_HEADER_BYTES] = {
      4, 3, 2, 1, 1, 4, 0, 6, 17,   0,    0,    0,    2,    0,    0,    0,
      0, 0, 0, 0, 0, 1, 0, 0, 0x10, 0x32, 0x54, 0x76, 0x98, 0xba, 0xdc, 0xfe};
  uint8_t header[RING_HEADER_BYTES];
  ring_frame frame = sample;
  ring_frame_pack(&frame, header);
  CHECK(memcmp(header, expected, RING_FRAME_KNOWN_BYTES + 4) == 0);
  frame.check = 0x04030201;
  ring_frame_pack(&frame, header);
  CHECK(memcmp(header, expected, RING_FRAME_KNOWN_BYTES) == 0);
  CHECK_INT(ring_frame_check(header), 0x04030201);
  CHECK(memcmp(header + RING_FRAME_KNOWN_BYTES, "\1\2\3\4", 4) == 0);
}

static void test_a_negative_rank_survives(void) {
  uint8_t header[RING_HEADER_BYTES];
  ring_frame frame = {.kind = RING_FRAME_FAIL, .call = {.root = -1}};
  ring_frame_pack(&frame, header);
  frame.call.root = 5;
  CHECK(ring_frame_unpack(header, &frame));
  CHECK_INT(frame.call.root, -1);
}

static void test_nonsense_is_refused(void) {
  uint8_t header[RING_HEADER_BYTES];
  ring_frame frame = sample;
  frame.kind = 9;
  ring_frame_pack(&frame, header);
  CHECK(ring_frame_is_whole(header) && !ring_frame_unpack(header, &frame));
}

static void test_a_changed_bit_is_seen(void) {
  uint8_t header[RING_HEADER_BYTES];
  ring_frame frame;
  ring_frame_pack(&sample, header);
  for (int bit = 0; bit < 8 * RING_HEADER_BYTES; bit++) {
    header[bit / 8] ^= (uint8_t)(1 << bit % 8);
    CHECK(!ring_frame_is_whole(header) && !ring_frame_unpack(header, &frame));
    header[bit / 8] ^= (uint8_t)(1 << bit % 8);
  }
  CHECK(ring_frame_unpack(header, &frame));
}

static void test_calls_are_described(void) {
  char text[RING_CALL_TEXT];
  ring_call call = {RING_COLLECTIVE_ALLREDUCE, RING_MAX, RING_FLOAT16, 3, 0, 10, 0};
  ring_call_describe(&call, text, sizeof text);
  CHECK_CONTAINS(text, "allreduce(count 10, float16, max) as call 3");
  ring_call_describe(&sample.call, text, sizeof text);
  CHECK_CONTAINS(text, "broadcast(count 1099511627776, float32, root 2) as call 17");
  call.collective = RING_COLLECTIVE_BARRIER;
  ring_call_describe(&call, text, sizeof text);
  CHECK_CONTAINS(text, "barrier() as call 3");
  call.collective = RING_COLLECTIVE_MESSAGE;
  call.root = 4;
  ring_call_describe(&call, text, sizeof text);
  CHECK_CONTAINS(text, "message 3 from rank 4 (count 10, float16)");
  call.collective = RING_COLLECTIVE_GATHERV;
  call.digest = 0xabcd1234;
  ring_call_describe(&call, text, sizeof text);
  CHECK_CONTAINS(text, "gatherv(count 10 in parts #1234, float16, root 4) as call 3");
  call.collective = 200;
  ring_call_describe(&call, text, sizeof text);
  CHECK_CONTAINS(text, "unknown() as call 3");
}

int main(void) {
  RUN(test_a_header_survives);
  RUN(test_the_bytes_are_those_of_the_protocol);
  RUN(test_a_negative_rank_survives);
  RUN(test_nonsense_is_refused);
  RUN(test_a_changed_bit_is_seen);
  RUN(test_calls_are_described);
  return 0;
}
