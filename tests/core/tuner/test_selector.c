/* SPDX-License-Identifier: Apache-2.0
 *
 * Costs and choices, as far as they are pure functions: the closed forms of cost.h against
 * schedules that are built and counted, the choice against the costs, and rules as text.
 */
#include "check.h"
#include "tuner/plan.h"

enum { SIZES = 40, PART = 24 };

static const uint8_t collectives[] = {
    RING_COLLECTIVE_ALLREDUCE, RING_COLLECTIVE_REDUCE,    RING_COLLECTIVE_REDUCE_SCATTER,
    RING_COLLECTIVE_BROADCAST, RING_COLLECTIVE_ALLGATHER, RING_COLLECTIVE_ALLGATHERV,
    RING_COLLECTIVE_GATHER,    RING_COLLECTIVE_GATHERV,   RING_COLLECTIVE_SCATTER,
    RING_COLLECTIVE_SCATTERV,  RING_COLLECTIVE_ALLTOALL,  RING_COLLECTIVE_ALLTOALLV,
    RING_COLLECTIVE_BARRIER};
enum { COLLECTIVES = sizeof collectives / sizeof collectives[0] };

/* ---- Effort ------------------------------------------------------------------------------- */

/* A call of bytes; shares of `size` and of the power of two below it are whole. */
static ring_outline outline_of(uint8_t collective, int rank, int size) {
  uint64_t inside = 1;
  while (inside * 2 <= (uint64_t)size) inside *= 2;
  uint64_t part = PART * inside, total = part * (uint64_t)size;
  ring_call call = {.collective = collective, .dtype = RING_INT8, .count = total};
  uint64_t bytes = ring_selection_bytes(&call, size);
  if (bytes > total) call.count = part;
  if (collective == RING_COLLECTIVE_BARRIER) call.count = 0;
  return (ring_outline){
      .call = call, .rank = rank, .size = size, .parts = {NULL, part}, .received = {NULL, part}};
}

static uint64_t most(uint64_t a, uint64_t b) {
  return a > b ? a : b;
}

static ring_effort count_effort(uint8_t collective, ring_algorithm algorithm, int size) {
  ring_effort effort = {0};
  for (int rank = 0; rank < size; rank++) {
    ring_outline outline = outline_of(collective, rank, size);
    ring_schedule s = {0};
    uint64_t messages[3] = {0}, elements[3] = {0};
    CHECK_INT(ring_plan_build(&s, &outline, algorithm), RING_OK);
    for (size_t i = 0; i < s.lane_count; i++) {
      messages[s.lanes[i].kind] += s.lanes[i].count;
      for (size_t j = 0; j < s.lanes[i].count; j++)
        elements[s.lanes[i].kind] += s.steps[s.lanes[i].first + j].count;
    }
    ring_schedule_free(&s);
    effort.all_messages += messages[RING_LANE_SEND];
    effort.all_bytes += elements[RING_LANE_SEND];
    effort.messages =
        most(effort.messages, most(messages[RING_LANE_SEND], messages[RING_LANE_RECV]));
    effort.bytes = most(effort.bytes, most(elements[RING_LANE_SEND], elements[RING_LANE_RECV]));
  }
  return effort;
}

/* One that costs the same wherever its ranks are. */
static bool is_flat(ring_algorithm algorithm, uint8_t collective) {
  return algorithm != RING_ALGORITHM_HIERARCHICAL && ring_algorithm_serves(algorithm, collective);
}

static void check_effort(uint8_t collective, ring_algorithm algorithm, int size) {
  ring_outline outline = outline_of(collective, 0, size);
  uint64_t bytes = ring_selection_bytes(&outline.call, size);
  ring_effort counted = count_effort(collective, algorithm, size);
  ring_effort said = ring_effort_of(algorithm, collective, size, bytes);
  CHECK_INT(said.all_messages, counted.all_messages);
  CHECK_INT(said.all_bytes, counted.all_bytes);
  /* One round of Bruck's allgather may have a single block, which is one message and not two. */
  bool gathers = algorithm == RING_ALGORITHM_BRUCK && collective != RING_COLLECTIVE_ALLTOALL;
  CHECK(said.messages >= counted.messages);
  CHECK(said.messages - counted.messages <= (gathers ? 1 : 0));
  uint64_t fill = algorithm == RING_ALGORITHM_CHAIN ? bytes * ((uint64_t)size - 2) : 0;
  CHECK_INT(said.bytes, counted.bytes + fill);
}

static void test_efforts_are_those_of_the_schedules(void) {
  int pairs = 0;
  for (int size = 2; size <= SIZES; size++)
    for (int i = 0; i < COLLECTIVES; i++)
      for (int a = 0; a < RING_ALGORITHMS; a++) {
        if (!is_flat((ring_algorithm)a, collectives[i])) continue;
        check_effort(collectives[i], (ring_algorithm)a, size);
        pairs++;
      }
  CHECK_INT(pairs, 26 * (SIZES - 1));
}

/* ---- Hierarchies -------------------------------------------------------------------------- */

enum { HOSTS_MOST = 16, NESTED_MOST = 64 };

/* Ranks on each host; 0 ends the list. */
static const int nested[][HOSTS_MOST] = {{2, 2},
                                         {2, 1},
                                         {3, 5},
                                         {8, 8},
                                         {1, 7, 2},
                                         {4, 4, 4},
                                         {2, 2, 2, 2},
                                         {5, 1, 1, 2, 3},
                                         {9, 3},
                                         {16, 16, 16},
                                         {6, 6, 6, 6, 6},
                                         {8, 8, 8, 8, 8, 8},
                                         {2, 2, 2, 2, 2, 2, 2, 2},
                                         {3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3},
                                         {2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2},
                                         {4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4}};
enum { NESTED = sizeof nested / sizeof nested[0] };

/* Ranks of hosts lie side by side, or, interleaved, as far apart as they can. */
static ring_topology layout_of(const int *hosts, bool interleaved) {
  ring_topology topology;
  int left[HOSTS_MOST], size = 0, host = 0;
  memcpy(left, hosts, sizeof left);
  for (int i = 0; i < HOSTS_MOST; i++) size += hosts[i];
  CHECK_INT(ring_topology_init(&topology, size), RING_OK);
  for (int rank = 0; rank < size; rank++) {
    while (left[host] == 0) host = (host + 1) % HOSTS_MOST;
    left[host]--;
    topology.nodes[rank] = size - 1 - host; /* any label will do */
    if (interleaved) host = (host + 1) % HOSTS_MOST;
  }
  ring_topology_survey(&topology);
  return topology;
}

static void test_layouts(void) {
  static const int labels[] = {4, 2, 4, 0, 2, 4}, numbers[] = {0, 1, 0, 2, 1, 0};
  ring_topology topology;
  CHECK_INT(ring_topology_init(&topology, 6), RING_OK);
  memcpy(topology.nodes, labels, sizeof labels);
  ring_topology_survey(&topology);
  for (int i = 0; i < 6; i++) CHECK_INT(topology.nodes[i], numbers[i]);
  CHECK_INT(topology.hosts, 3);
  CHECK_INT(topology.smallest, 1);
  CHECK_INT(topology.largest, 3);
  CHECK_INT(topology.leaving, 2);
  CHECK(ring_topology_is_nested(&topology));
  CHECK(ring_topology_has_group(&topology, 2) && !ring_topology_has_group(&topology, 1));
  CHECK_INT(topology.inside, RING_TIER_LOOPBACK);
  ring_topology_share(&topology, (const uint8_t[]){1, 1, 1, 0, 1, 1}); /* rank 3 is alone */
  CHECK_INT(topology.inside, RING_TIER_SHM);
  ring_topology_share(&topology, (const uint8_t[]){1, 1, 1, 0, 0, 1});
  CHECK_INT(topology.inside, RING_TIER_LOOPBACK);
  ring_topology_fini(&topology);
  ring_topology one = layout_of((int[HOSTS_MOST]){4}, false);
  ring_topology apart = layout_of((int[HOSTS_MOST]){1, 1, 1}, false);
  CHECK(!ring_topology_is_nested(NULL) && !ring_topology_is_nested(&one));
  CHECK(!ring_topology_is_nested(&apart) && !ring_topology_has_group(&apart, 64));
  ring_topology_fini(&one);
  ring_topology_fini(&apart);
}

typedef struct counted {
  uint64_t messages[2], bytes[2]; /* sent, received */
} counted;

/* The bytes that a rank sends and receives within its host, or, `across`, beyond it. */
static counted count_rank(const ring_topology *topology, int rank, uint64_t count,
                          bool inter_host) {
  counted sum = {0};
  ring_schedule s = {0};
  ring_outline outline = {
      .call = {.collective = RING_COLLECTIVE_ALLREDUCE, .dtype = RING_INT8, .count = count},
      .rank = rank,
      .size = topology->size,
      .nodes = topology->nodes};
  CHECK_INT(ring_plan_build(&s, &outline, RING_ALGORITHM_HIERARCHICAL), RING_OK);
  for (size_t i = 0; i < s.lane_count; i++) {
    const ring_lane *lane = &s.lanes[i];
    if (lane->kind == RING_LANE_LOCAL) continue;
    if ((topology->nodes[lane->peer] != topology->nodes[rank]) != inter_host) continue;
    int way = lane->kind == RING_LANE_SEND ? 0 : 1;
    sum.messages[way] += lane->count;
    for (size_t j = 0; j < lane->count; j++) sum.bytes[way] += s.steps[lane->first + j].count;
  }
  ring_schedule_free(&s);
  return sum;
}

/* Within hosts, "all" are the ranks of the largest one. */
static void check_half(const ring_topology *topology, uint64_t count, const ring_effort *said,
                       bool inter_host) {
  ring_effort effort = {0};
  uint64_t messages[NESTED_MOST] = {0}, bytes[NESTED_MOST] = {0};
  for (int rank = 0; rank < topology->size; rank++) {
    counted sum = count_rank(topology, rank, count, inter_host);
    int node = inter_host ? 0 : topology->nodes[rank];
    messages[node] += sum.messages[0];
    bytes[node] += sum.bytes[0];
    effort.messages = most(effort.messages, most(sum.messages[0], sum.messages[1]));
    effort.bytes = most(effort.bytes, most(sum.bytes[0], sum.bytes[1]));
  }
  for (int node = 0; node < topology->hosts; node++) {
    effort.all_messages = most(effort.all_messages, messages[node]);
    effort.all_bytes = most(effort.all_bytes, bytes[node]);
  }
  CHECK_INT(said->messages, effort.messages);
  CHECK_INT(said->bytes, effort.bytes);
  CHECK_INT(said->all_messages, effort.all_messages);
  CHECK_INT(said->all_bytes, effort.all_bytes);
}

/* Counts of which all shards and parts are whole, so short that there is one shard, and so long
 * that there are all, across hosts by each algorithm. */
static void test_efforts_of_hierarchies_are_those_of_the_schedules(void) {
  static const uint64_t counts[] = {720,       7200,      720 * 50,  720 * 100,
                                    720 * 200, 720 * 300, 720 * 400, 720 * 5000};
  int arrived[RING_INTER_HOST_RING + 1] = {0};
  for (int i = 0; i < 2 * NESTED; i++) {
    ring_topology topology = layout_of(nested[i / 2], i % 2);
    for (int c = 0; c < 8; c++) {
      ring_hierarchy shape = ring_hierarchy_choose(counts[c], topology.hosts, topology.smallest);
      uint64_t cut = (uint64_t)shape.shards *
                     (shape.inter_host == RING_INTER_HOST_DOUBLING ? 1 : (uint64_t)topology.hosts);
      if (counts[c] % cut > 0) continue;
      ring_nested_effort said = ring_effort_of_hierarchical(&topology, counts[c], counts[c]);
      CHECK_INT(said.shards, shape.shards);
      CHECK_INT(said.inside.rounds, 2);
      check_half(&topology, counts[c], &said.inside, false);
      check_half(&topology, counts[c], &said.inter_host, true);
      arrived[shape.inter_host]++;
    }
    ring_topology_fini(&topology);
  }
  for (int inter_host = 0; inter_host <= RING_INTER_HOST_RING; inter_host++)
    CHECK(arrived[inter_host] > 8);
}

/* Nothing gets cheaper because ranks share a host. */
static void check_flat(const ring_topology *topology, ring_algorithm algorithm, uint64_t bytes,
                       uint64_t *before) {
  uint8_t allreduce = RING_COLLECTIVE_ALLREDUCE;
  uint64_t cost = ring_cost_over(topology, algorithm, allreduce, bytes);
  CHECK(cost >= *before);
  CHECK(cost >= ring_cost_of(RING_TIER_NETWORK, algorithm, allreduce, topology->size, bytes));
  *before = cost;
}

static void test_more_bytes_never_cost_a_hierarchy_less(void) {
  for (int i = 0; i < 2 * NESTED; i++) {
    ring_topology topology = layout_of(nested[i / 2], false);
    topology.inside = i % 2 ? RING_TIER_SHM : RING_TIER_LOOPBACK;
    uint64_t before = 0, ring = 0, halving = 0;
    for (int bits = 0; bits < 64; bits++) {
      uint64_t bytes = UINT64_C(1) << bits;
      uint64_t cost = ring_cost_of_hierarchical(&topology, bytes / 4, bytes);
      CHECK(cost > 0 && cost >= before);
      before = cost;
      check_flat(&topology, RING_ALGORITHM_RING, bytes, &ring);
      check_flat(&topology, RING_ALGORITHM_HALVING, bytes, &halving);
    }
    ring_topology_fini(&topology);
  }
}

static void test_rounds(void) {
  uint8_t allreduce = RING_COLLECTIVE_ALLREDUCE;
  CHECK_INT(ring_effort_of(RING_ALGORITHM_RING, allreduce, 8, 100).rounds, 14);
  CHECK_INT(ring_effort_of(RING_ALGORITHM_DOUBLING, allreduce, 8, 100).rounds, 3);
  CHECK_INT(ring_effort_of(RING_ALGORITHM_DOUBLING, allreduce, 9, 100).rounds, 5);
  CHECK_INT(ring_effort_of(RING_ALGORITHM_HALVING, allreduce, 9, 100).rounds, 8);
  CHECK_INT(ring_effort_of(RING_ALGORITHM_DIRECT, allreduce, 9, 100).rounds, 1);
  CHECK_INT(ring_effort_of(RING_ALGORITHM_TREE, RING_COLLECTIVE_BROADCAST, 9, 1).rounds, 4);
  CHECK_INT(ring_effort_of(RING_ALGORITHM_CHAIN, RING_COLLECTIVE_BROADCAST, 9, 1).rounds, 8);
}

/* ---- Cost and choice ---------------------------------------------------------------------- */

static void test_more_bytes_never_cost_less(void) {
  for (int tier = RING_TIER_SHM; tier <= RING_TIER_NETWORK; tier++)
    for (int size = 1; size <= 5000; size = size * 3 / 2 + 1)
      for (int i = 0; i < COLLECTIVES; i++)
        for (int a = 0; a < RING_ALGORITHMS; a++) {
          if (!is_flat((ring_algorithm)a, collectives[i])) continue;
          uint64_t before = 0;
          for (int bits = 0; bits < 64; bits++) {
            uint64_t cost = ring_cost_of((ring_tier)tier, (ring_algorithm)a, collectives[i], size,
                                         UINT64_C(1) << bits);
            CHECK(cost >= before);
            if (size > 1) CHECK(cost > 0);
            before = cost;
          }
        }
}

static ring_call call_of(uint8_t collective, ring_dtype dtype, uint64_t count) {
  return (ring_call){.collective = collective, .dtype = (uint8_t)dtype, .count = count};
}

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
    ring_topology topology = layout_of(nested[i], false);
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

/* ---- Rules ---------------------------------------------------------------------------- */

static ring_selector chooser_of(const char *text) {
  ring_selector selector = {.tier = RING_TIER_NETWORK};
  ring_error error = {0};
  if (ring_rules_parse(&selector.rules, "algorithms", text, &error) != RING_OK)
    fprintf(stderr, "%s\n", error.message);
  CHECK_INT(error.status, RING_OK);
  return selector;
}

static void check_overridden(const ring_selector *selector, uint64_t bytes,
                             ring_algorithm expected) {
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

static void test_overrides_and_their_ranges(void) {
  ring_selector selector =
      chooser_of("allreduce:halving:64KiB-1MiB, allreduce:ring:65537-,"
                 "broadcast:tree,allreduce:doubling:-10,allreduce:direct:-64KiB");
  CHECK_INT(selector.rules.count, 5);
  check_overridden(&selector, 0, RING_ALGORITHM_DOUBLING);
  check_overridden(&selector, 10, RING_ALGORITHM_DOUBLING);
  check_overridden(&selector, 11, RING_ALGORITHM_DIRECT);
  check_overridden(&selector, 65535, RING_ALGORITHM_DIRECT);
  check_overridden(&selector, 65536, RING_ALGORITHM_HALVING);
  check_overridden(&selector, 1 << 20, RING_ALGORITHM_HALVING);
  check_overridden(&selector, (1 << 20) + 1, RING_ALGORITHM_RING);
  ring_call call = call_of(RING_COLLECTIVE_REDUCE, RING_INT8, 100);
  CHECK(!ring_select(&selector, &call, 4).ruled);
  CHECK_INT(chooser_of("").rules.count, 0);
  CHECK_INT(chooser_of(NULL).rules.count, 0);
  check_overridden(&(ring_selector){.rules = chooser_of("allreduce:ring:2GiB-").rules},
                   UINT64_C(2) << 30, RING_ALGORITHM_RING);
}

/* A rule that cannot serve a call is passed over, also for a later one. */
static void test_overrides_that_do_not_fit(void) {
  ring_selector selector = chooser_of("allreduce:halving"), two = selector;
  two = chooser_of("allreduce:halving,allreduce:doubling");
  ring_call call = call_of(RING_COLLECTIVE_ALLREDUCE, RING_FLOAT16, 1000);
  ring_selection selection = ring_select(&selector, &call, 4);
  CHECK(selection.unfit && !selection.ruled);
  CHECK(selection.algorithm != RING_ALGORITHM_HALVING);
  selection = ring_select(&two, &call, 4);
  CHECK(selection.unfit && selection.ruled);
  CHECK_INT(selection.algorithm, RING_ALGORITHM_DOUBLING);
}

/* A hierarchy needs several hosts, and several ranks on some of them. */
static void test_an_override_may_want_a_hierarchy(void) {
  static const int hosts[][HOSTS_MOST] = {{4}, {1, 1, 1, 1}, {2, 2}, {1, 3}};
  ring_selector selector = chooser_of("allreduce:hierarchical");
  ring_call call = call_of(RING_COLLECTIVE_ALLREDUCE, RING_BFLOAT16, 1000);
  for (int i = 0; i < 4; i++) {
    ring_topology topology = layout_of(hosts[i], false);
    selector.topology = &topology;
    ring_selection selection = ring_select(&selector, &call, 4);
    CHECK(selection.ruled == (i >= 2) && selection.unfit == (i < 2));
    CHECK((selection.algorithm == RING_ALGORITHM_HIERARCHICAL) == (i >= 2));
    if (i >= 2) CHECK_INT(selection.cost, ring_cost_of_hierarchical(&topology, 1000, 2000));
    ring_topology_fini(&topology);
  }
}

/* The user may have as many links as he likes. */
static void test_an_override_may_be_direct(void) {
  ring_selector selector = chooser_of("allreduce:direct");
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

static void test_bad_overrides(void) {
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

static void test_digests_differ_where_choices_may(void) {
  ring_topology two = layout_of((int[HOSTS_MOST]){2, 2}, false);
  ring_topology mixed = layout_of((int[HOSTS_MOST]){2, 2}, true);
  const ring_selector choosers[] = {chooser_of(""),
                                    {.tier = RING_TIER_NETWORK, .topology = &two},
                                    {.tier = RING_TIER_NETWORK, .topology = &mixed},
                                    chooser_of("allreduce:ring"),
                                    chooser_of("allreduce:halving"),
                                    chooser_of("reduce:tree"),
                                    chooser_of("reduce:tree:1-"),
                                    chooser_of("reduce:tree:-1"),
                                    {.tier = RING_TIER_LOOPBACK}};
  size_t count = sizeof choosers / sizeof choosers[0];
  for (size_t i = 0; i < count; i++)
    for (size_t j = 0; j < count; j++) {
      bool same = ring_selector_digest(&choosers[i]) == ring_selector_digest(&choosers[j]);
      CHECK(same == (i == j));
    }
  const ring_selector spaced = chooser_of(" allreduce:ring:0- ");
  CHECK(ring_selector_digest(&spaced) == ring_selector_digest(&choosers[3]));
  ring_topology_fini(&two);
  ring_topology_fini(&mixed);
}

int main(void) {
  RUN(test_efforts_are_those_of_the_schedules);
  RUN(test_layouts);
  RUN(test_efforts_of_hierarchies_are_those_of_the_schedules);
  RUN(test_more_bytes_never_cost_a_hierarchy_less);
  RUN(test_rounds);
  RUN(test_more_bytes_never_cost_less);
  RUN(test_the_least_cost_is_chosen);
  RUN(test_only_what_all_know_matters);
  RUN(test_choices_over_a_network_make_sense);
  RUN(test_choices_over_hosts_make_sense);
  RUN(test_overrides_and_their_ranges);
  RUN(test_overrides_that_do_not_fit);
  RUN(test_an_override_may_want_a_hierarchy);
  RUN(test_an_override_may_be_direct);
  RUN(test_bad_overrides);
  RUN(test_digests_differ_where_choices_may);
  return 0;
}
