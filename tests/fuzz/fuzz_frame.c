/* SPDX-License-Identifier: Apache-2.0
 *
 * Frame headers: what was read is written as it was, with the check that it should have had, and every
 * call can be put into words.
 */
#include "input.h"
#include "peers/frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
  uint8_t header[RING_HEADER_BYTES] = {0}, again[RING_HEADER_BYTES];
  char text[RING_CALL_TEXT];
  ring_frame frame;
  memcpy(header, bytes, length < sizeof header ? length : sizeof header);
  bool known = ring_frame_unpack(header, &frame);
  FUZZ_PROMISE(known == (frame.kind == RING_FRAME_DATA || frame.kind == RING_FRAME_FAIL ||
                         frame.kind == RING_FRAME_WAIT_REPORT ||
                         frame.kind == RING_FRAME_DESCRIPTION));
  ring_frame_pack(&frame, again);
  FUZZ_PROMISE(memcmp(header, again, sizeof header - 4) == 0);
  ring_call_describe(&frame.call, text, sizeof text);
  FUZZ_PROMISE(strlen(text) + 1 < sizeof text); /* nothing was cut off */
  return 0;
}
