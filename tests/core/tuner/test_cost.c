/* SPDX-License-Identifier: Apache-2.0
 *
 * Costs: the closed forms of cost.h against schedules that are built and counted.
 */
#include "check.h"
#include "selections.h"

enum { SIZES = 40, PART = 24 };

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

static void check_effort(uint8_t collective, ring_algorithm algorithm, int size) {
  ring_outline outline = outline_of(collective, 0, size);
  uint64_t bytes = ring_selection_bytes(&outline.call, size);
  ring_effort counted = count_effort(collective, algorithm, size);
  ring_effort form = ring_effort_of(algorithm, collective, size, bytes);
  CHECK_INT(form.all_messages, counted.all_messages);
  CHECK_INT(form.all_bytes, counted.all_bytes);
  /* One round of Bruck's allgather may have a single block, which is one message and not two. */
  bool gathers = algorithm == RING_ALGORITHM_BRUCK && collective != RING_COLLECTIVE_ALLTOALL;
  CHECK(form.messages >= counted.messages);
  CHECK(form.messages - counted.messages <= (gathers ? 1 : 0));
  uint64_t fill = algorithm == RING_ALGORITHM_CHAIN ? bytes * ((uint64_t)size - 2) : 0;
  CHECK_INT(form.bytes, counted.bytes + fill);
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
  CHECK_INT(pairs, 32 * (SIZES - 1));
}

/* ---- Hierarchies -------------------------------------------------------------------------- */

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
static void check_half(const ring_topology *topology, uint64_t count, const ring_effort *form,
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
  CHECK_INT(form->messages, effort.messages);
  CHECK_INT(form->bytes, effort.bytes);
  CHECK_INT(form->all_messages, effort.all_messages);
  CHECK_INT(form->all_bytes, effort.all_bytes);
}

/* Counts of which all shards and parts are whole, so short that there is one shard, and so long
 * that there are all, across hosts by each algorithm. */
static void test_efforts_of_hierarchies_are_those_of_the_schedules(void) {
  static const uint64_t counts[] = {720,       7200,      720 * 50,  720 * 100,
                                    720 * 200, 720 * 300, 720 * 400, 720 * 5000};
  int seen[RING_INTER_HOST_RING + 1] = {0};
  for (int i = 0; i < 2 * NESTED; i++) {
    ring_topology topology = topology_of(nested[i / 2], i % 2);
    for (int c = 0; c < 8; c++) {
      ring_hierarchy shape = ring_hierarchy_choose(counts[c], topology.hosts, topology.smallest);
      uint64_t cut = (uint64_t)shape.shards *
                     (shape.inter_host == RING_INTER_HOST_DOUBLING ? 1 : (uint64_t)topology.hosts);
      if (counts[c] % cut > 0) continue;
      ring_nested_effort form = ring_effort_of_hierarchical(&topology, counts[c], counts[c]);
      CHECK_INT(form.shards, shape.shards);
      CHECK_INT(form.inside.rounds, 2);
      check_half(&topology, counts[c], &form.inside, false);
      check_half(&topology, counts[c], &form.inter_host, true);
      seen[shape.inter_host]++;
    }
    ring_topology_fini(&topology);
  }
  for (int inter_host = 0; inter_host <= RING_INTER_HOST_RING; inter_host++)
    CHECK(seen[inter_host] > 8);
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
    ring_topology topology = topology_of(nested[i / 2], false);
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

/* ---- Cost --------------------------------------------------------------------------------- */

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

int main(void) {
  RUN(test_efforts_are_those_of_the_schedules);
  RUN(test_efforts_of_hierarchies_are_those_of_the_schedules);
  RUN(test_more_bytes_never_cost_a_hierarchy_less);
  RUN(test_rounds);
  RUN(test_more_bytes_never_cost_less);
  return 0;
}
