/* SPDX-License-Identifier: Apache-2.0
 *
 * Rules of algorithms: every rule that was read can be followed.
 */
#include "input.h"
#include "tuner/rules.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
  input from = {bytes, length};
  ring_rules rules;
  ring_error error;
  char *text = input_text(&from);
  if (ring_rules_parse(&rules, "fuzz", text, &error) == RING_OK) {
    FUZZ_PROMISE(rules.count >= 0 && rules.count <= RING_RULES_MOST);
    for (int i = 0; i < rules.count; i++) {
      const ring_rule *rule = &rules.rules[i];
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
