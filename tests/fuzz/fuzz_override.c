/* SPDX-License-Identifier: Apache-2.0
 *
 * Overrides of algorithms: every rule that was read can be followed.
 */
#include "input.h"
#include "override.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
  input from = {bytes, length};
  ring_overrides overrides;
  ring_error error;
  char *text = input_text(&from);
  if (ring_overrides_parse(&overrides, "fuzz", text, &error) == RING_OK) {
    FUZZ_PROMISE(overrides.count >= 0 && overrides.count <= RING_OVERRIDES_MOST);
    for (int i = 0; i < overrides.count; i++) {
      const ring_override *rule = &overrides.rules[i];
      FUZZ_PROMISE(rule->from <= rule->to);
      FUZZ_PROMISE(ring_algorithm_serves((ring_algorithm)rule->algorithm, rule->collective));
    }
  } else {
    FUZZ_PROMISE(error.status == RING_INVALID);
    FUZZ_PROMISE(strncmp(error.message, "fuzz", 4) == 0);
  }
  free(text);
  return 0;
}
