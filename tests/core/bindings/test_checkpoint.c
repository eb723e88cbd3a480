/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of states: names, whole and damaged files.
 */
#include "bindings/checkpoint.h"

#include "check.h"

static void test_names(void) {
  char name[RING_CHECKPOINT_NAME_BYTES];
  ring_checkpoint_name(7, name);
  CHECK(strcmp(name, "state-000000000007") == 0);
  CHECK_INT(ring_checkpoint_number(name), 7);
  CHECK_INT(ring_checkpoint_number("state-999999999999"), 999999999999);
  const char *const others[] = {"",
                                "state-",
                                "state-00000000007",
                                "state-0000000000007",
                                "state-00000000000x",
                                "new-state-000000000007",
                                "state-000000000007.rds"};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    CHECK_INT(ring_checkpoint_number(others[i]), -1);
}

static void test_kept(void) {
  CHECK(!ring_checkpoint_is_old(5, 5));
  CHECK(!ring_checkpoint_is_old(4, 5));
  CHECK(ring_checkpoint_is_old(3, 5));
  CHECK(!ring_checkpoint_is_old(6, 5));
}

static void test_whole(void) {
  uint8_t file[100 + RING_CHECKPOINT_TRAILER_BYTES];
  size_t length;
  for (size_t state = 0; state <= 100; state += 50) {
    size_t end = state + RING_CHECKPOINT_TRAILER_BYTES;
    memset(file, 7, sizeof file);
    CHECK(ring_checkpoint_seal(file, state, file + state));
    CHECK(ring_checkpoint_check(file, end, &length));
    CHECK_INT(length, state);
    for (size_t cut = 0; cut < end; cut++) CHECK(!ring_checkpoint_check(file, cut, &length));
    for (size_t at = 0; at < end; at++) {
      file[at] ^= 1;
      CHECK(!ring_checkpoint_check(file, end, &length));
      file[at] ^= 1;
    }
  }
}

int main(void) {
  RUN(test_names);
  RUN(test_kept);
  RUN(test_whole);
  return 0;
}
