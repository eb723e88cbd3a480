/* SPDX-License-Identifier: Apache-2.0
 *
 * Which rank is at fault when several have failed.
 */
#include "bindings/blame.h"

#include "check.h"

static void test_weights(void) {
  const char *const ended[] = {RING_BLAME_ENDED};
  double weight = ring_blame_weight_of_names(ended, 1);
  CHECK(ring_blame_weight(RING_SYSTEM) == 0);
  CHECK(ring_blame_weight(RING_INVALID) < ring_blame_weight(RING_MISMATCH));
  CHECK(ring_blame_weight(RING_MISMATCH) < ring_blame_weight(RING_TIMEOUT));
  CHECK(ring_blame_weight(RING_TIMEOUT) < weight);
  CHECK(weight < ring_blame_weight(RING_PEER_LOST));
  CHECK(ring_blame_weight(RING_PEER_LOST) < ring_blame_weight(RING_ABORTED));
}

static void test_causes(void) {
  const char *const names[] = {"ABORTED", "PEER_LOST", "INVALID", "REMOTE"};
  CHECK(ring_blame_weight_of_names(names, 0) == 0);
  CHECK(ring_blame_weight_of_names(names, 1) == 5);
  CHECK(ring_blame_weight_of_names(names, 2) == 4);
  CHECK(ring_blame_weight_of_names(names, 3) == 1);
  CHECK(ring_blame_weight_of_names(names, 4) == 0);
}

static void test_first(void) {
  const ring_blame blames[] = {{5, 1, 0}, {4, 9, 3}, {4, 9, 2}, {4, 8, 1}, {0, 10, 4}};
  CHECK_INT(ring_blame_first(blames, 1), 0);
  CHECK_INT(ring_blame_first(blames, 2), 1);
  CHECK_INT(ring_blame_first(blames, 3), 2);
  CHECK_INT(ring_blame_first(blames, 4), 3);
  CHECK_INT(ring_blame_first(blames, 5), 4);
}

int main(void) {
  RUN(test_weights);
  RUN(test_causes);
  RUN(test_first);
  return 0;
}
