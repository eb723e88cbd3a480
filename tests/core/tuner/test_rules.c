/* SPDX-License-Identifier: Apache-2.0
 *
 * Rules of the user, as strings: what they choose, where they do not fit, and which are refused.
 */
#include "check.h"
#include "selections.h"

static void check_ruled(const ring_selector *selector, uint64_t bytes, ring_algorithm expected) {
  ring_call call = call_of(RING_COLLECTIVE_ALLREDUCE, RING_INT8, bytes);
  ring_selection selection = ring_select(selector, &call, 4);
  CHECK(selection.ruled);
  CHECK_INT(selection.algorithm, expected);
  ring_algorithm next;
  uint64_t cost;
  CHECK(ring_select_next(selector, &call, 4, &selection, &next, &cost));
  CHECK(next != expected);
  CHECK_INT(selection.cost,
            ring_cost_of(selector->tier, expected, RING_COLLECTIVE_ALLREDUCE, 4, bytes));
}

static void test_rules_and_their_ranges(void) {
  ring_selector selector =
      selector_of("allreduce:halving:64KiB-1MiB, allreduce:ring:65537-,"
                  "broadcast:tree,allreduce:doubling:-10,allreduce:direct:-64KiB");
  CHECK_INT(selector.rules.count, 5);
  check_ruled(&selector, 0, RING_ALGORITHM_DOUBLING);
  check_ruled(&selector, 10, RING_ALGORITHM_DOUBLING);
  check_ruled(&selector, 11, RING_ALGORITHM_DIRECT);
  check_ruled(&selector, 65535, RING_ALGORITHM_DIRECT);
  check_ruled(&selector, 65536, RING_ALGORITHM_HALVING);
  check_ruled(&selector, 1 << 20, RING_ALGORITHM_HALVING);
  check_ruled(&selector, (1 << 20) + 1, RING_ALGORITHM_RING);
  ring_call call = call_of(RING_COLLECTIVE_REDUCE, RING_INT8, 100);
  CHECK(!ring_select(&selector, &call, 4).ruled);
  CHECK_INT(selector_of("").rules.count, 0);
  CHECK_INT(selector_of(NULL).rules.count, 0);
  check_ruled(&(ring_selector){.rules = selector_of("allreduce:ring:2GiB-").rules},
              UINT64_C(2) << 30, RING_ALGORITHM_RING);
}

/* A rule that cannot serve a call is passed over, also for a later one. */
static void test_rules_that_do_not_fit(void) {
  ring_selector selector = selector_of("allreduce:halving"), two = selector;
  two = selector_of("allreduce:halving,allreduce:doubling");
  ring_call call = call_of(RING_COLLECTIVE_ALLREDUCE, RING_FLOAT16, 1000);
  ring_selection selection = ring_select(&selector, &call, 4);
  CHECK(selection.unfit && !selection.ruled);
  CHECK(selection.algorithm != RING_ALGORITHM_HALVING);
  selection = ring_select(&two, &call, 4);
  CHECK(selection.unfit && selection.ruled);
  CHECK_INT(selection.algorithm, RING_ALGORITHM_DOUBLING);
}

/* A hierarchy needs several hosts, and several ranks on some of them. */
static void test_a_rule_may_want_a_hierarchy(void) {
  static const int hosts[][HOSTS_MOST] = {{4}, {1, 1, 1, 1}, {2, 2}, {1, 3}};
  ring_selector selector = selector_of("allreduce:hierarchical");
  ring_call call = call_of(RING_COLLECTIVE_ALLREDUCE, RING_BFLOAT16, 1000);
  for (int i = 0; i < 4; i++) {
    ring_topology topology = topology_of(hosts[i], false);
    selector.topology = &topology;
    ring_selection selection = ring_select(&selector, &call, 4);
    CHECK(selection.ruled == (i >= 2) && selection.unfit == (i < 2));
    CHECK((selection.algorithm == RING_ALGORITHM_HIERARCHICAL) == (i >= 2));
    if (i >= 2) CHECK_INT(selection.cost, ring_cost_of_hierarchical(&topology, 1000, 2000));
    ring_topology_fini(&topology);
  }
}

/* The user may have as many links as he likes. */
static void test_a_rule_may_be_direct(void) {
  ring_selector selector = selector_of("allreduce:direct");
  ring_call call = call_of(RING_COLLECTIVE_ALLREDUCE, RING_INT8, 8);
  CHECK_INT(ring_select(&selector, &call, 1000).algorithm, RING_ALGORITHM_DIRECT);
}

static void check_bad(const char *text, const char *piece, const char *why) {
  ring_rules rules;
  ring_error error = {0};
  CHECK_INT(ring_rules_parse(&rules, "SPARKRING_ALGORITHM", text, &error), RING_INVALID);
  CHECK_CONTAINS(error.message, "SPARKRING_ALGORITHM");
  CHECK_CONTAINS(error.message, piece);
  CHECK_CONTAINS(error.message, why);
  CHECK_INT(ring_rules_parse(&rules, "algorithms", text, NULL), RING_INVALID);
}

static void test_bad_rules(void) {
  check_bad("allreduce", "\"allreduce\"", "is no rule: write collective:algorithm");
  check_bad("allreduce:ring,", "\"\"", "is no rule");
  check_bad("broadcast:tree,all_reduce:ring", "\"all_reduce:ring\"",
            "does not begin with a collective; there are allreduce, reduce, reduce_scatter, "
            "broadcast, allgather");
  check_bad("message:message", "\"message:message\"", "does not begin with a collective");
  check_bad("allreduce:tree", "\"allreduce:tree\"",
            "names no algorithm of that collective; there are ring, direct, doubling, halving");
  check_bad("reduce:rings", "\"reduce:rings\"", "there are tree, chain");
  check_bad("reduce:", "\"reduce:\"", "there are tree, chain");
  const char *const ranges[] = {"",
                                "-",
                                "5",
                                "2-1",
                                "1KB-",
                                "-1mib",
                                "x-",
                                "1-2-3",
                                "-1 MiB",
                                "KiB-",
                                "1-2x",
                                "0x10-",
                                "-1KiBx",
                                "9999999999999999-",
                                "99999999999GiB-"};
  for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
    char text[64];
    snprintf(text, sizeof text, "reduce:tree:%s", ranges[i]);
    check_bad(text, "reduce:tree:", "ends in no range of sizes: write 64KiB-, -1MiB");
  }
  char text[1024] = "reduce:tree";
  for (int i = 0; i < RING_RULES_MOST; i++) strcat(text, ",reduce:tree");
  check_bad(text, "", "has more than 32 rules");
}

int main(void) {
  RUN(test_rules_and_their_ranges);
  RUN(test_rules_that_do_not_fit);
  RUN(test_a_rule_may_want_a_hierarchy);
  RUN(test_a_rule_may_be_direct);
  RUN(test_bad_rules);
  return 0;
}
