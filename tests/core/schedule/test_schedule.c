/* SPDX-License-Identifier: Apache-2.0
 *
 * Every schedule, verified symbolically (verifier.h) for every number of ranks, several counts and roots,
 * with input and output apart and in place; and how many links and bytes schedules take.
 */
#include "check.h"
#include "verifier.h"

/* ---- Verifying ---------------------------------------------------------------------------- */

/* Parts of 0 to 6 elements, the first and the last ones of which may be empty. */
static void uneven(uint64_t *offsets, int size) {
  offsets[0] = 0;
  for (int rank = 0; rank < size; rank++)
    offsets[rank + 1] = offsets[rank] + (uint64_t)(rank * 5 + size) % 7;
}

/* One algorithm for every size, several counts, in place and not, and several roots. */
static void verify_widths(const collective *kind, planner plan, bool rooted, bool takes_uneven,
                          bool widen) {
  uint64_t offsets[RANKS + 1];
  for (int size = 1; size <= RANKS; size++) {
    uint64_t n = (uint64_t)size;
    bool parts = kind->inputs != whole && kind->outputs != whole;
    uint64_t counts[] = {0, 1, parts ? 5 : n - 1, parts ? 3 : n, n + 1, 211};
    int roots[] = {0, size / 2, size - 1};
    uneven(offsets, size);
    for (int variant = 0; variant < 2 * 3; variant++) {
      if (!rooted && variant >= 2) break;
      if (variant >= 2 && roots[variant / 2] == roots[variant / 2 - 1]) continue;
      plan_case c = {
          .size = size, .root = roots[variant / 2], .in_place = variant % 2 == 1, .widen = widen};
      for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        c.count = c.parts.count = counts[i];
        if (parts && c.count > 5) continue;
        verify_case(kind, plan, &c);
      }
      c.parts = (ring_parts){offsets, 0};
      if (takes_uneven) verify_case(kind, plan, &c);
    }
  }
}

static void verify(const collective *kind, planner plan, bool rooted, bool takes_uneven) {
  verify_widths(kind, plan, rooted, takes_uneven, false);
}

/* The same with accumulators: the flags of all steps have to mark them. */
static void verify_wide(const collective *kind, planner plan, bool rooted, bool takes_uneven) {
  verify_widths(kind, plan, rooted, takes_uneven, true);
}

#define PLAN(name, ...)                                                                            \
  static ring_status plan_##name(ring_schedule *s, int rank, const plan_case *c) {                 \
    return ring_schedule_##name(s, rank, c->size, __VA_ARGS__);                                    \
  }
#define PLAN_REDUCTION(name, ...)                                                                  \
  PLAN(name, __VA_ARGS__, false)                                                                   \
  static ring_status plan_##name##_wide(ring_schedule *s, int rank, const plan_case *c) {          \
    return ring_schedule_##name(s, rank, c->size, __VA_ARGS__, true);                              \
  }

#define PLAN_SCAN_OF(name, algorithm, widen, exclusive)                                            \
  static ring_status plan_##name(ring_schedule *s, int rank, const plan_case *c) {                 \
    return ring_schedule_scan_##algorithm(s, rank, c->size, c->count, widen, exclusive);           \
  }
#define PLAN_SCAN(algorithm)                                                                       \
  PLAN_SCAN_OF(scan_##algorithm, algorithm, false, false)                                          \
  PLAN_SCAN_OF(scan_##algorithm##_wide, algorithm, true, false)                                    \
  PLAN_SCAN_OF(exscan_##algorithm, algorithm, false, true)                                         \
  PLAN_SCAN_OF(exscan_##algorithm##_wide, algorithm, true, true)

PLAN_REDUCTION(allreduce_ring, c->count)
PLAN_REDUCTION(allreduce_direct, c->count)
PLAN_REDUCTION(allreduce_doubling, c->count)
PLAN(allreduce_halving, c->count)
PLAN_REDUCTION(reduce_scatter_ring, c->parts)
PLAN_REDUCTION(reduce_scatter_direct, c->parts)
PLAN_SCAN(doubling)
PLAN_SCAN(chain)
PLAN(broadcast_tree, c->count, c->root)
PLAN(broadcast_chain, c->count, c->root)
PLAN_REDUCTION(reduce_tree, c->count, c->root)
PLAN_REDUCTION(reduce_chain, c->count, c->root)
PLAN(allgather_ring, c->parts)
PLAN(allgather_bruck, c->parts)
PLAN(gather_tree, c->parts, c->root)
PLAN(gather_direct, c->parts, c->root)
PLAN(scatter_tree, c->parts, c->root)
PLAN(scatter_direct, c->parts, c->root)
PLAN(alltoall_bruck, c->count)

static ring_status plan_alltoall_pairwise(ring_schedule *s, int rank, const plan_case *c) {
  return ring_schedule_alltoall_pairwise(s, rank, c->size, c->parts, c->parts);
}

static ring_status plan_barrier(ring_schedule *s, int rank, const plan_case *c) {
  return ring_schedule_barrier(s, rank, c->size);
}

static void test_allreduce(void) {
  verify(&verified_allreduce, plan_allreduce_ring, false, false);
  verify(&verified_allreduce, plan_allreduce_direct, false, false);
  verify(&verified_allreduce, plan_allreduce_doubling, false, false);
  verify(&verified_allreduce, plan_allreduce_halving, false, false);
}

static void test_reductions_with_accumulators(void) {
  verify_wide(&verified_allreduce, plan_allreduce_ring_wide, false, false);
  verify_wide(&verified_allreduce, plan_allreduce_direct_wide, false, false);
  verify_wide(&verified_allreduce, plan_allreduce_doubling_wide, false, false);
  verify_wide(&verified_reduce_scatter, plan_reduce_scatter_ring_wide, false, true);
  verify_wide(&verified_reduce_scatter, plan_reduce_scatter_direct_wide, false, true);
  verify_wide(&verified_reduce, plan_reduce_tree_wide, true, false);
  verify_wide(&verified_reduce, plan_reduce_chain_wide, true, false);
}

static void test_reduce(void) {
  verify(&verified_reduce, plan_reduce_tree, true, false);
  verify(&verified_reduce, plan_reduce_chain, true, false);
}

static void test_reduce_scatter(void) {
  verify(&verified_reduce_scatter, plan_reduce_scatter_ring, false, true);
  verify(&verified_reduce_scatter, plan_reduce_scatter_direct, false, true);
}

static void test_scan(void) {
  verify(&verified_scan, plan_scan_doubling, false, false);
  verify(&verified_scan, plan_scan_chain, false, false);
  verify(&verified_exscan, plan_exscan_doubling, false, false);
  verify(&verified_exscan, plan_exscan_chain, false, false);
}

static void test_scan_with_accumulators(void) {
  verify_wide(&verified_scan, plan_scan_doubling_wide, false, false);
  verify_wide(&verified_scan, plan_scan_chain_wide, false, false);
  verify_wide(&verified_exscan, plan_exscan_doubling_wide, false, false);
  verify_wide(&verified_exscan, plan_exscan_chain_wide, false, false);
}

static void test_broadcast(void) {
  verify(&verified_broadcast, plan_broadcast_tree, true, false);
  verify(&verified_broadcast, plan_broadcast_chain, true, false);
}

static void test_allgather(void) {
  verify(&verified_allgather, plan_allgather_ring, false, true);
  verify(&verified_allgather, plan_allgather_bruck, false, true);
}

static void test_gather(void) {
  verify(&verified_gather, plan_gather_tree, true, true);
  verify(&verified_gather, plan_gather_direct, true, true);
}

static void test_scatter(void) {
  verify(&verified_scatter, plan_scatter_tree, true, true);
  verify(&verified_scatter, plan_scatter_direct, true, true);
}

static void test_alltoall(void) {
  verify(&verified_alltoall, plan_alltoall_bruck, false, false);
  verify(&verified_alltoall, plan_alltoall_pairwise, false, false);
}

/* ---- Hosts -------------------------------------------------------------------------------- */

static ring_status plan_hierarchical(ring_schedule *s, int rank, const plan_case *c) {
  return ring_schedule_allreduce_hierarchical(s, rank, c->size, c->node, c->count, c->widen,
                                              c->shape);
}

/* A placement in one of WAYS ways: in place or not, with accumulators or without, with as many shards
 * as there can be and with fewer, across hosts by each algorithm. */
enum { WAYS = 24 };

static void verify_placement(const int *node, int size, uint64_t count, unsigned order,
                             unsigned way) {
  plan_case c = {.size = size, .count = count, .node = node};
  c.in_place = way & 1;
  c.widen = way & 2;
  c.shape.shards = way & 4 ? 1 + (int)count % 2 : size;
  c.shape.inter_host = (ring_inter_host_name)(way / 8);
  verify_order(&verified_allreduce, plan_hierarchical, &c, order);
}

/* Random neighbours; labels, too, need not be in the order of ranks. */
static void shuffle(int *node, int size) {
  static machine dice = {.random = 2463534242u};
  for (int i = size - 1; i > 0; i--) {
    int other = (int)(draw(&dice) % (uint64_t)(i + 1)), kept = node[i];
    node[i] = node[other];
    node[other] = kept;
  }
}

/* Small splits are verified with everything, of others each with its share. */
static void verify_split(const int *node, int size) {
  static const uint64_t counts[] = {0, 1, 5, 23, 61};
  static unsigned turns = 0;
  bool all = size <= 6;
  for (unsigned i = 0; i < sizeof counts / sizeof counts[0]; i++)
    for (unsigned order = 0; order < ORDERS; order++)
      for (unsigned way = 0; way < WAYS; way++)
        if (all || (turns % 5 == i && turns % 3 == order && turns % 6 == way / 4))
          verify_placement(node, size, counts[i], order, way);
  turns++;
}

/* Gives the last `left` ranks to hosts from `host` on, none with more than `most`. */
static void verify_splits(int *node, int size, int left, int most, int host) {
  if (left == 0) {
    int shuffled[RANKS];
    verify_split(node, size);
    if (size > 16) return;
    memcpy(shuffled, node, sizeof shuffled);
    shuffle(shuffled, size);
    verify_split(shuffled, size);
  }
  for (int ranks = left < most ? left : most; ranks > 0; ranks--) {
    for (int i = 0; i < ranks; i++) node[size - left + i] = host;
    verify_splits(node, size, left - ranks, ranks, host + 1);
  }
}

static void test_every_split_over_hosts(void) {
  int node[RANKS];
  for (int size = 1; size <= RANKS_SPLIT; size++) verify_splits(node, size, size, size, 0);
}

/* Long vectors, for which the builder chooses the shards and the ring itself. */
static void test_hosts_with_long_vectors(void) {
  static const int node[] = {0, 0, 0, 2, 2, 5, 5, 5};
  for (uint64_t count = 2047; count < 80000; count *= 6) {
    plan_case c = {.size = 8, .count = count, .node = node};
    verify_order(&verified_allreduce, plan_hierarchical, &c, RECEIVES_FIRST);
  }
}

/* ---- Shapes ------------------------------------------------------------------------------- */

/* With one rank held back, nobody may leave a barrier. */
static void test_barrier_waits_for_everybody(void) {
  for (int size = 2; size <= RANKS; size++)
    for (int absent = 0; absent < size; absent++) {
      plan_case c = {.size = size};
      machine *m = make_machine(&verified_allreduce, plan_barrier, &c);
      for (int round = 0; round < 2 * size; round++)
        for (int rank = 0; rank < size; rank++)
          for (size_t lane = 0; rank != absent && lane < m->schedules[rank].lane_count; lane++)
            turn(m, rank, lane, UINT64_MAX);
      for (int rank = 0; rank < size; rank++) {
        bool left = true;
        for (size_t lane = 0; lane < m->schedules[rank].lane_count; lane++)
          left = left && m->steps[rank][lane] == m->schedules[rank].lanes[lane].count;
        CHECK(!left);
      }
      run_machine(m);
      free_machine(m, &verified_allreduce, &c);
    }
}

static void test_a_ring_needs_two_links(void) {
  for (int size = 2; size <= RANKS; size++)
    for (int rank = 0; rank < size; rank++) {
      ring_schedule s = {0};
      CHECK_INT(ring_schedule_allreduce_ring(&s, rank, size, 100, false), RING_OK);
      CHECK_INT(s.lane_count, 2);
      CHECK_INT(s.lanes[0].peer, (rank + size - 1) % size);
      CHECK_INT(s.lanes[1].peer, (rank + 1) % size);
      ring_schedule_free(&s);
    }
}

/* Elements that a rank sends in a schedule. */
static uint64_t traffic(const ring_schedule *s) {
  uint64_t sent = 0;
  for (size_t lane = 0; lane < s->lane_count; lane++)
    for (size_t i = 0; s->lanes[lane].kind == RING_LANE_SEND && i < s->lanes[lane].count; i++)
      sent += s->steps[s->lanes[lane].first + i].count;
  return sent;
}

/* 2(N-1)K/N elements a rank for the ring, and for halving where no rank is folded. */
static void test_traffic_of_allreduce(void) {
  for (int size = 2; size <= RANKS; size++)
    for (int rank = 0; rank < size; rank++) {
      uint64_t n = (uint64_t)size;
      ring_schedule s = {0};
      CHECK_INT(ring_schedule_allreduce_ring(&s, rank, size, 40 * n, false), RING_OK);
      CHECK_INT(traffic(&s), 2 * (n - 1) * 40);
      CHECK_INT(ring_schedule_allreduce_halving(&s, rank, size, 40 * n), RING_OK);
      if ((size & (size - 1)) == 0) CHECK_INT(traffic(&s), 2 * (n - 1) * 40);
      ring_schedule_free(&s);
    }
}

/* Doubling, trees and Bruck's rounds: at most ceil(log2 N) partners each way, and one for folding. */
static void test_logarithmic_algorithms_need_few_links(void) {
  static const planner plans[] = {
      plan_allreduce_doubling, plan_allreduce_halving, plan_broadcast_tree, plan_reduce_tree,
      plan_allgather_bruck,    plan_gather_tree,       plan_scatter_tree,   plan_alltoall_bruck,
      plan_scan_doubling,      plan_exscan_doubling};
  for (int size = 1; size <= RANKS; size++) {
    size_t rounds = 0;
    while ((1 << rounds) < size) rounds++;
    for (int rank = 0; rank < size; rank++)
      for (size_t i = 0; i < sizeof plans / sizeof plans[0]; i++) {
        plan_case c = {.size = size, .count = 3, .parts = {.count = 3}};
        ring_schedule s = {0};
        CHECK_INT(plans[i](&s, rank, &c), RING_OK);
        CHECK(s.lane_count <= 2 * rounds + 3);
        ring_schedule_free(&s);
      }
  }
}

int main(void) {
  RUN(test_allreduce);
  RUN(test_reductions_with_accumulators);
  RUN(test_reduce);
  RUN(test_reduce_scatter);
  RUN(test_scan);
  RUN(test_scan_with_accumulators);
  RUN(test_broadcast);
  RUN(test_allgather);
  RUN(test_gather);
  RUN(test_scatter);
  RUN(test_alltoall);
  RUN(test_every_split_over_hosts);
  RUN(test_hosts_with_long_vectors);
  RUN(test_barrier_waits_for_everybody);
  RUN(test_a_ring_needs_two_links);
  RUN(test_traffic_of_allreduce);
  RUN(test_logarithmic_algorithms_need_few_links);
  return 0;
}
