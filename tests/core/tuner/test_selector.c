/* SPDX-License-Identifier: Apache-2.0
 *
 * The selector, as far as it is a pure function: the choice against the costs.
 */
#include "check.h"
#include "selections.h"

static void check_choice(ring_tier tier, const ring_call *call, int size) {
  ring_selector selector = {.tier = tier};
  uint64_t bytes = ring_selection_bytes(call, size);
  ring_selection selection = ring_select(&selector, call, size);
  ring_algorithm next;
  uint64_t next_cost;
  CHECK(ring_algorithm_fits(selection.algorithm, call, NULL));
  CHECK(!selection.ruled && !selection.unfit);
  CHECK(selection.algorithm != RING_ALGORITHM_DIRECT || size <= RING_DIRECT_RANKS);
  for (int a = 0; a < RING_ALGORITHMS; a++) {
    ring_algorithm other = (ring_algorithm)a;
    if (!ring_algorithm_fits(other, call, NULL) || other == selection.algorithm) continue;
    if (other == RING_ALGORITHM_DIRECT && size > RING_DIRECT_RANKS) continue;
    uint64_t cost = ring_cost_of(tier, other, call->collective, size, bytes);
    CHECK(selection.cost <= cost);
    CHECK(ring_select_next(&selector, call, size, &selection, &next, &next_cost));
    CHECK(next_cost <= cost && next_cost >= selection.cost && next != selection.algorithm);
  }
}

static void test_the_least_cost_is_chosen(void) {
  for (int tier = RING_TIER_SHM; tier <= RING_TIER_NETWORK; tier++)
    for (int size = 1; size <= 20000; size = size < 40 ? size + 1 : size * 3)
      for (int i = 0; i < COLLECTIVES; i++)
        for (uint64_t count = 0; count < UINT64_C(1) << 32; count = count * 5 + 1) {
          ring_call wide = call_of(collectives[i], RING_FLOAT32, count);
          ring_call half = call_of(collectives[i], RING_FLOAT16, count);
          check_choice((ring_tier)tier, &wide, size);
          check_choice((ring_tier)tier, &half, size);
        }
}

/* Everybody must choose alike, so nothing that differs between ranks may matter. */
static void test_only_what_all_know_matters(void) {
  ring_selector selector = {.tier = RING_TIER_NETWORK};
  ring_call call = call_of(RING_COLLECTIVE_BROADCAST, RING_FLOAT32, 100000), other = call;
  other.root = 5;
  other.op = RING_MAX;
  other.sequence = 77;
  other.digest = 99;
  CHECK_INT(ring_select(&selector, &call, 9).algorithm,
            ring_select(&selector, &other, 9).algorithm);
  CHECK_INT(ring_select(&selector, &call, 9).cost, ring_select(&selector, &other, 9).cost);
}

static ring_algorithm chosen(int size, ring_dtype dtype, uint64_t count) {
  ring_selector selector = {.tier = RING_TIER_NETWORK};
  ring_call call = call_of(RING_COLLECTIVE_ALLREDUCE, dtype, count);
  return ring_select(&selector, &call, size).algorithm;
}

/* Whatever the numbers of the table are, these have to hold over a network. */
static void test_choices_over_a_network_make_sense(void) {
  CHECK_INT(chosen(1024, RING_FLOAT32, 2), RING_ALGORITHM_DOUBLING);
  CHECK_INT(chosen(1024, RING_FLOAT32, 25000), RING_ALGORITHM_HALVING);
  CHECK_INT(chosen(8, RING_FLOAT32, 100000000), RING_ALGORITHM_RING);
  CHECK_INT(chosen(6, RING_FLOAT32, 100000000), RING_ALGORITHM_RING);
  CHECK(chosen(1024, RING_BFLOAT16, 25000) != RING_ALGORITHM_HALVING);
}

/* So do these, where hosts have several ranks: two rounds in memory instead of some over the
 * network, and less of a long vector over it. */
static void test_choices_over_hosts_make_sense(void) {
  static const uint64_t counts[] = {1, 100000, 100000000};
  for (int i = 0; i < NESTED; i++) {
    ring_topology topology = topology_of(nested[i], false);
    topology.inside = RING_TIER_SHM;
    for (int c = 0; c < 3; c++) {
      ring_selector selector = {.tier = RING_TIER_NETWORK, .topology = &topology};
      ring_call call = call_of(RING_COLLECTIVE_ALLREDUCE, RING_FLOAT32, counts[c]);
      ring_selection selection = ring_select(&selector, &call, topology.size);
      /* A short call may also go straight to a few ranks. */
      bool straight = counts[c] == 1 && topology.size <= RING_DIRECT_RANKS;
      if (topology.smallest == topology.largest && topology.largest <= 8 && !straight)
        CHECK_INT(selection.algorithm, RING_ALGORITHM_HIERARCHICAL);
      CHECK(selection.cost <= ring_cost_of_hierarchical(&topology, counts[c], 4 * counts[c]));
      call.collective = RING_COLLECTIVE_REDUCE;
      CHECK(ring_select(&selector, &call, topology.size).algorithm != RING_ALGORITHM_HIERARCHICAL);
    }
    ring_topology_fini(&topology);
  }
}

static void test_digests_differ_where_choices_may(void) {
  ring_topology two = topology_of((int[HOSTS_MOST]){2, 2}, false);
  ring_topology mixed = topology_of((int[HOSTS_MOST]){2, 2}, true);
  const ring_selector selectors[] = {selector_of(""),
                                     {.tier = RING_TIER_NETWORK, .topology = &two},
                                     {.tier = RING_TIER_NETWORK, .topology = &mixed},
                                     selector_of("allreduce:ring"),
                                     selector_of("allreduce:halving"),
                                     selector_of("reduce:tree"),
                                     selector_of("reduce:tree:1-"),
                                     selector_of("reduce:tree:-1"),
                                     {.tier = RING_TIER_LOOPBACK}};
  size_t count = sizeof selectors / sizeof selectors[0];
  for (size_t i = 0; i < count; i++)
    for (size_t j = 0; j < count; j++) {
      bool same = ring_selector_digest(&selectors[i]) == ring_selector_digest(&selectors[j]);
      CHECK(same == (i == j));
    }
  const ring_selector spaced = selector_of(" allreduce:ring:0- ");
  CHECK(ring_selector_digest(&spaced) == ring_selector_digest(&selectors[3]));
  ring_topology_fini(&two);
  ring_topology_fini(&mixed);
}

int main(void) {
  RUN(test_the_least_cost_is_chosen);
  RUN(test_only_what_all_know_matters);
  RUN(test_choices_over_a_network_make_sense);
  RUN(test_choices_over_hosts_make_sense);
  RUN(test_digests_differ_where_choices_may);
  return 0;
}
