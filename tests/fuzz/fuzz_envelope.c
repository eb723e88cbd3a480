/* SPDX-License-Identifier: Apache-2.0
 *
 * Envelopes of objects of other ranks: cut apart, and refused with a text. The cuts lie within the bytes, in order,
 * and each envelope has its trailer.
 */
#include "bindings/checkpoint.h"
#include "bindings/envelope.h"
#include "input.h"

enum { COUNT_MOST = 5 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
  input from = {bytes, length};
  size_t count = 1 + input_byte(&from) % COUNT_MOST, starts[COUNT_MOST + 1], state;
  ring_envelope_kind reads =
      input_byte(&from) % 2 == 0 ? RING_ENVELOPE_PICKLE : ring_envelope_kind_of_r();
  char text[RING_ENVELOPE_TEXT_BYTES];
  uint8_t *exact = malloc(from.left > 0 ? from.left : 1); /* a read behind it is found */
  FUZZ_PROMISE(exact != NULL);
  if (from.left > 0) memcpy(exact, from.at, from.left);
  if (ring_checkpoint_check(exact, from.left, &state)) FUZZ_PROMISE(state < from.left);
  bool split = ring_envelope_split(exact, from.left, count, starts);
  for (size_t i = 0; i < count && split; i++) {
    FUZZ_PROMISE(starts[i] + RING_ENVELOPE_TRAILER_BYTES <= starts[i + 1]);
    FUZZ_PROMISE(starts[i + 1] <= from.left);
    if (!ring_envelope_check(exact + starts[i], starts[i + 1] - starts[i], reads, (int)i, text))
      FUZZ_PROMISE(strlen(text) > 0);
  }
  free(exact);
  return 0;
}
