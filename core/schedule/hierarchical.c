/* SPDX-License-Identifier: Apache-2.0
 *
 * Allreduce over ranks that share hosts, in three parts that overlap in time. The buffer is cut
 * into shards. On every host, shard s has a driver, the rank of place s: all ranks of the host send
 * it their piece, and it adds the pieces up. The drivers of a shard, one a host, reduce it across
 * the hosts (inter_host.h), and each sends the result to its host.
 *
 * Hosts may differ in ranks. There are as many shards as the smallest host has ranks, so that each
 * host has a driver for each; ranks of higher places only send input and receive results. More
 * shards would save no traffic between hosts, since all hosts send the same in any case. But a
 * driver stores a piece of every rank of its host, so where one host is far smaller than the others
 * it needs much memory.
 *
 * A driver adds the piece of the next place of its host first, and so on around. Across hosts the
 * order depends on the hosts alone. So each element is reduced once, in one order, or, by doubling,
 * by all drivers alike. In place, a write over an input contains that input already. Only in
 * doubling, and only for a rank alone on its host, a fence waits until the input was sent.
 */
#include <stdlib.h>

#include "schedule/inter_host_steps.h"

/* In elements. Shorter shards cost more in messages than they save in time on the links. */
#define HIERARCHICAL_SHARD UINT64_C(1024)
/* The elements that a driver sends in the time that a message takes to another host: 20 us of an
 * eighth of an interface of 100 Gbit/s, as float32. */
#define HIERARCHICAL_LATENCY UINT64_C(8192)
/* Longer vectors count as this long: their products with hosts and rounds fit 64 bits. */
#define HIERARCHICAL_LONG (UINT64_C(1) << 36)

/* ---- Hosts and places ---------------------------------------------------------------------- */

/* `work` has room for four numbers a rank. */
static void hierarchical_survey(ring_inter_host *a, int rank, int size, const int *node,
                                int *work) {
  int *number = work + 3 * (size_t)size; /* of the host with a label, plus one */
  a->here = work;
  a->drivers = work + size;
  a->ranks = work + 2 * (size_t)size;
  for (int i = 0; i < size; i++) number[node[i]] = 1;
  for (int label = 0; label < size; label++)
    if (number[label] > 0) number[label] = a->hosts++;
  a->host = number[node[rank]];
  for (int i = 0; i < rank; i++) a->place += node[i] == node[rank];
  for (int i = 0; i < size; i++) {
    int host = number[node[i]], place = a->ranks[host]++;
    if (host == a->host) a->here[place] = i;
    if (place == a->place) a->drivers[host] = i;
  }
  a->places = a->ranks[a->host];
}

static int hierarchical_smallest(const ring_inter_host *a) {
  int smallest = a->places;
  for (int host = 0; host < a->hosts; host++)
    if (a->ranks[host] < smallest) smallest = a->ranks[host];
  return smallest;
}

/* The algorithm of least time across hosts, in integers, so that all ranks choose the same. A
 * round of doubling or halving is sent before the next one begins, and folded hosts cost two
 * rounds more. The parts of a ring are under way while others wait, so either its rounds or its
 * traffic set its time. */
static ring_inter_host_name hierarchical_inter_host(uint64_t count, uint64_t shards,
                                                    uint64_t hosts) {
  uint64_t folds = (hosts & (hosts - 1)) != 0 ? 1 : 0;
  uint64_t rounds = (uint64_t)schedule_rounds((int)hosts) - folds, turns = 2 * (hosts - 1);
  uint64_t all = count < HIERARCHICAL_LONG ? count : HIERARCHICAL_LONG;
  uint64_t latency =
      HIERARCHICAL_LATENCY * shards * hosts; /* all times: elements, all shards, by */
  uint64_t waiting = turns * latency, traffic = turns * all; /* host */
  uint64_t doubling = (rounds + 2 * folds) * (latency + all * hosts);
  uint64_t halving = 2 * (rounds + folds) * latency + 2 * (1 + folds) * all * hosts;
  uint64_t ring = latency + (waiting > traffic ? waiting : traffic);
  if (doubling <= ring && doubling <= halving) return RING_INTER_HOST_DOUBLING;
  return halving < ring ? RING_INTER_HOST_HALVING : RING_INTER_HOST_RING;
}

ring_hierarchy ring_hierarchy_choose(uint64_t count, int hosts, int smallest) {
  uint64_t most = count / HIERARCHICAL_SHARD;
  ring_hierarchy shape = {.shards = most < (uint64_t)smallest ? (int)most : smallest};
  if (shape.shards == 0) shape.shards = 1;
  if (hosts > 1)
    shape.inter_host = hierarchical_inter_host(count, (uint64_t)shape.shards, (uint64_t)hosts);
  return shape;
}

static void hierarchical_choose(ring_inter_host *a) {
  static const ring_inter_host_way *const ways[] = {
      [RING_INTER_HOST_DOUBLING] = &ring_inter_host_doubling,
      [RING_INTER_HOST_HALVING] = &ring_inter_host_halving,
      [RING_INTER_HOST_RING] = &ring_inter_host_ring};
  int smallest = hierarchical_smallest(a);
  if (a->shape.shards == 0) a->shape = ring_hierarchy_choose(a->count, a->hosts, smallest);
  if (a->shape.shards > smallest) a->shape.shards = smallest;
  if (a->hosts == 1) a->shape.inter_host = RING_INTER_HOST_DOUBLING;
  a->way = ways[a->shape.inter_host];
  if (a->shape.inter_host == RING_INTER_HOST_RING) return;
  ring_inter_host_fold(a);
  if (a->folded) a->way = &ring_inter_host_folded;
}

/* Where a shard begins; and its length. */
static uint64_t hierarchical_shard(const ring_inter_host *a, int shard, uint64_t *length) {
  *length = schedule_share_count(a->count, a->shape.shards, shard);
  return schedule_share_begin(a->count, a->shape.shards, shard);
}

/* ---- Lanes -------------------------------------------------------------------------------- */

static void hierarchical_receive_here(const ring_inter_host *a) {
  for (int away = 1; away < a->places; away++) {
    int place = schedule_wrap(a->place + away, a->places);
    bool gives = place < a->shape.shards;
    if (!a->drives && !gives) continue;
    ring_schedule_lane(a->schedule, RING_LANE_RECV, a->here[place]);
    uint64_t shard, piece, slot = (uint64_t)(away - 1) * a->length;
    for (int i = 0; a->drives && i < a->way->given(a); i++) {
      uint64_t offset = a->way->given_piece(a, a->length, i, &piece);
      ring_inter_host_receive(a, RING_SPACE_SCRATCH, slot + offset, piece, false);
    }
    if (!gives) continue;
    uint64_t begin = hierarchical_shard(a, place, &shard);
    for (int i = 0; i < a->way->results(a); i++) {
      uint64_t offset = a->way->result_piece(a, shard, i, &piece);
      ring_inter_host_receive(a, RING_SPACE_OUTPUT, begin + offset, piece, false);
    }
  }
}

static void hierarchical_send_here(const ring_inter_host *a) {
  for (int away = 1; away < a->places; away++) {
    int place = schedule_wrap(a->place - away, a->places);
    bool takes = place < a->shape.shards;
    if (!a->drives && !takes) continue;
    ring_schedule_lane(a->schedule, RING_LANE_SEND, a->here[place]);
    uint64_t shard, piece, begin = hierarchical_shard(a, place, &shard);
    for (int i = 0; takes && i < a->way->given(a); i++) {
      uint64_t offset = a->way->given_piece(a, shard, i, &piece);
      ring_inter_host_send(a, RING_SPACE_INPUT, begin + offset, piece, RING_STEP_FREE, 0);
    }
    if (a->drives) a->way->send_results(a);
  }
}

static void hierarchical_drive(ring_inter_host *a) {
  a->sum = (uint64_t)(a->places - 1) * a->length;
  a->received = a->sum + a->length;
  a->first_recv = (int32_t)a->schedule->lane_count;
  a->way->receive(a);
  bool idle = a->places == 1 && a->folded;
  if (!idle) a->local = ring_schedule_lane(a->schedule, RING_LANE_LOCAL, -1);
  a->way->combine(a);
  a->way->send(a);
}

static ring_status hierarchical_build(ring_inter_host *a) {
  size_t others = (size_t)(a->places - 1), rounds = (size_t)a->rounds;
  size_t given = (size_t)a->way->given(a), results = (size_t)a->way->results(a);
  bool ring = a->shape.inter_host == RING_INTER_HOST_RING;
  size_t lanes = 2 * others + (ring ? 3 : 2 * rounds + 4);
  size_t steps =
      others * (3 * given + 2 * results) + (ring ? 5 * (size_t)a->hosts : 6 * rounds + 6);
  ring_status status = ring_schedule_reserve(a->schedule, lanes, steps);
  if (status != RING_OK) return status;
  hierarchical_receive_here(a);
  if (a->drives) hierarchical_drive(a);
  hierarchical_send_here(a);
  return RING_OK;
}

ring_status ring_schedule_allreduce_hierarchical(ring_schedule *schedule, int rank, int size,
                                                 const int *node, uint64_t count, bool widen,
                                                 ring_hierarchy shape) {
  if (size == 1) {
    ring_status status = ring_schedule_reserve(schedule, 1, 1);
    if (status == RING_OK) ring_schedule_copy_lane(schedule, 0, 0, count);
    return status;
  }
  int *work = calloc(4 * (size_t)size, sizeof *work);
  if (work == NULL) return RING_NO_MEMORY;
  ring_inter_host a = {.schedule = schedule, .shape = shape, .widen = widen, .count = count};
  hierarchical_survey(&a, rank, size, node, work);
  hierarchical_choose(&a);
  a.drives = a.place < a.shape.shards;
  if (a.drives) a.begin = hierarchical_shard(&a, a.place, &a.length);
  ring_status status = hierarchical_build(&a);
  free(work);
  return status;
}
