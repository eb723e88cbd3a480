/* SPDX-License-Identifier: Apache-2.0
 *
 * Across hosts: recursive doubling, and halving then doubling, as in doubling.c, among the drivers
 * of a shard. Exchange e is the fold, if there is one, then the rounds.
 */
#include "schedule/inter_host_steps.h"

void ring_inter_host_fold(ring_inter_host *a) {
  a->inside = 1;
  while (a->inside <= a->hosts / 2) {
    a->inside *= 2;
    a->rounds++;
  }
  a->partner = a->host >= a->inside ? a->host - a->inside : a->host + a->inside;
  a->folds = a->partner < a->hosts;
  a->folded = a->host >= a->inside;
}

static int inter_host_exchanges(const ring_inter_host *a) {
  return a->rounds + a->folds;
}

/* Whether the data that another host sends in an exchange was combined from several ranks. */
static bool inter_host_combined(const ring_inter_host *a, int peer, int exchange) {
  if (a->ranks[peer] > 1 || exchange > a->folds) return true;
  return exchange == a->folds && peer + a->inside < a->hosts;
}

/* The watermark of the combines when all ranks of this host are added up, in so many pieces; and
 * before the last rank is added to a first piece. */
static uint64_t inter_host_added(const ring_inter_host *a, int pieces) {
  return (uint64_t)(a->places - 1) * (a->length + (uint64_t)pieces);
}

static uint64_t inter_host_adding(const ring_inter_host *a, uint64_t length) {
  return (uint64_t)(a->places - 2) * (length + 1);
}

/* ---- A folded host ------------------------------------------------------------------------ */

/* A folded host sends its sum to its partner and receives the result. */
static void inter_host_folded_receive(ring_inter_host *a) {
  ring_schedule_lane(a->schedule, RING_LANE_RECV, a->drivers[a->partner]);
  ring_inter_host_receive(a, RING_SPACE_OUTPUT, a->begin, a->length, false);
  a->schedule->scratch = a->received;
}

static void inter_host_folded_send(const ring_inter_host *a) {
  ring_schedule_lane(a->schedule, RING_LANE_SEND, a->drivers[a->partner]);
  ring_inter_host_send_sum(a, 0, a->length, inter_host_adding(a, a->length));
}

static void inter_host_folded_send_result(const ring_inter_host *a) {
  ring_inter_host_send(a, RING_SPACE_OUTPUT, a->begin, a->length, a->first_recv, 0);
}

static void inter_host_add_up(const ring_inter_host *a) {
  ring_inter_host_add_up(a, 0, a->length, 0);
}

const ring_inter_host_way ring_inter_host_folded = {.given = ring_inter_host_one,
                                                    .given_piece = ring_inter_host_whole,
                                                    .results = ring_inter_host_one,
                                                    .result_piece = ring_inter_host_whole,
                                                    .receive = inter_host_folded_receive,
                                                    .combine = inter_host_add_up,
                                                    .send = inter_host_folded_send,
                                                    .send_results = inter_host_folded_send_result};

/* ---- Doubling ----------------------------------------------------------------------------- */

/* An exchange receives at `received`, and puts its result e shards behind everything received.
 * The last exchange puts its result in the output. */
static int inter_host_doubling_peer(const ring_inter_host *a, int exchange) {
  return exchange < a->folds ? a->partner : a->host ^ (1 << (exchange - a->folds));
}

static uint64_t inter_host_doubling_place(const ring_inter_host *a, int exchange) {
  return a->received + (uint64_t)(inter_host_exchanges(a) + exchange) * a->length;
}

static void inter_host_doubling_receive(ring_inter_host *a) {
  for (int e = 0; e < inter_host_exchanges(a); e++) {
    int peer = inter_host_doubling_peer(a, e);
    ring_schedule_lane(a->schedule, RING_LANE_RECV, a->drivers[peer]);
    ring_inter_host_receive(a, RING_SPACE_SCRATCH, a->received + (uint64_t)e * a->length, a->length,
                            inter_host_combined(a, peer, e));
  }
  a->schedule->scratch = inter_host_doubling_place(a, inter_host_exchanges(a));
}

/* The watermark of the combines before an exchange. In place, an input that is sent as it is
 * must be sent before the last exchange overwrites it; a fence waits for that. */
static bool inter_host_doubling_fences(const ring_inter_host *a, int exchange) {
  return exchange == inter_host_exchanges(a) - 1 && a->places == 1 && !a->folds;
}

static uint64_t inter_host_doubling_before(const ring_inter_host *a, int exchange) {
  return inter_host_added(a, 1) + (uint64_t)exchange * (a->length + 1) +
         (inter_host_doubling_fences(a, exchange) ? 1 : 0);
}

static void inter_host_doubling_combine(const ring_inter_host *a) {
  int exchanges = inter_host_exchanges(a);
  inter_host_add_up(a);
  for (int e = 0; e < exchanges; e++) {
    bool first = e == 0, last = e == exchanges - 1;
    int peer = inter_host_doubling_peer(a, e);
    ring_step step = {.source = first ? (uint8_t)inter_host_sum_space(a) : RING_SPACE_SCRATCH,
                      .flags = peer < a->host ? RING_STEP_SWAPPED : 0,
                      .after = a->first_recv + e,
                      .from = first ? inter_host_sum(a) : inter_host_doubling_place(a, e - 1),
                      .to = last ? a->begin : inter_host_doubling_place(a, e),
                      .with = a->received + (uint64_t)e * a->length,
                      .count = a->length};
    if (inter_host_doubling_fences(a, e))
      ring_schedule_fence(a->schedule, a->local + 1, a->length + 1);
    ring_inter_host_combine(a, step, !first || a->places > 1, inter_host_combined(a, peer, e),
                            last);
  }
}

static void inter_host_doubling_send_result(const ring_inter_host *a) {
  ring_inter_host_send(a, RING_SPACE_OUTPUT, a->begin, a->length, a->local,
                       inter_host_doubling_before(a, inter_host_exchanges(a) - 1));
}

static void inter_host_doubling_send(const ring_inter_host *a) {
  for (int e = a->folds; e < inter_host_exchanges(a); e++) {
    ring_schedule_lane(a->schedule, RING_LANE_SEND, a->drivers[inter_host_doubling_peer(a, e)]);
    if (e == 0)
      ring_inter_host_send_sum(a, 0, a->length, inter_host_adding(a, a->length));
    else
      ring_inter_host_send(a, RING_SPACE_SCRATCH, inter_host_doubling_place(a, e - 1), a->length,
                           a->local, inter_host_doubling_before(a, e - 1));
  }
  if (!a->folds) return;
  ring_schedule_lane(a->schedule, RING_LANE_SEND, a->drivers[a->partner]);
  inter_host_doubling_send_result(a);
}

const ring_inter_host_way ring_inter_host_doubling = {.given = ring_inter_host_one,
                                                      .given_piece = ring_inter_host_whole,
                                                      .results = ring_inter_host_one,
                                                      .result_piece = ring_inter_host_whole,
                                                      .receive = inter_host_doubling_receive,
                                                      .combine = inter_host_doubling_combine,
                                                      .send = inter_host_doubling_send,
                                                      .send_results =
                                                          inter_host_doubling_send_result};

/* ---- Halving, then doubling --------------------------------------------------------------- */

/* Partial sums stay at `sum`. A block is the unit that a round exchanges; here the one that
 * holds share `share` of a shard. */
static int inter_host_halving_distance(const ring_inter_host *a, int round) {
  /* NOLINTNEXTLINE(clang-analyzer-core.BitwiseShift): rounds count from 0 */
  return a->inside >> (round + 1);
}

static int inter_host_halving_peer(const ring_inter_host *a, int round) {
  return a->host ^ inter_host_halving_distance(a, round);
}

static uint64_t inter_host_halving_block(const ring_inter_host *a, uint64_t shard, int round,
                                         int share, uint64_t *length) {
  int distance = inter_host_halving_distance(a, round), first = share & ~(distance - 1);
  uint64_t begin = schedule_share_begin(shard, a->inside, first);
  *length = schedule_share_begin(shard, a->inside, first + distance) - begin;
  return begin;
}

static uint64_t inter_host_halving_kept(const ring_inter_host *a, int round, uint64_t *length) {
  return inter_host_halving_block(a, a->length, round, a->host, length);
}

static uint64_t inter_host_halving_other(const ring_inter_host *a, int round, uint64_t *length) {
  return inter_host_halving_block(a, a->length, round, inter_host_halving_peer(a, round), length);
}

/* The block that round 0 sends is added up before the block that this host keeps, unless a fold
 * needs all first. */
static int inter_host_halving_given(const ring_inter_host *a) {
  return a->folds ? 1 : 2;
}

static uint64_t inter_host_halving_given_piece(const ring_inter_host *a, uint64_t shard, int piece,
                                               uint64_t *length) {
  if (a->folds) return ring_inter_host_whole(a, shard, piece, length);
  return inter_host_halving_block(a, shard, 0, piece == 0 ? inter_host_halving_peer(a, 0) : a->host,
                                  length);
}

static void inter_host_halving_add_up(const ring_inter_host *a) {
  uint64_t mark = 0, length;
  for (int piece = 0; piece < inter_host_halving_given(a); piece++) {
    uint64_t offset = inter_host_halving_given_piece(a, a->length, piece, &length);
    ring_inter_host_add_up(a, offset, length, mark);
    mark += length + 1;
  }
}

/* Results: the own share first, then the blocks that the rounds receive, the last round first. */
static int inter_host_halving_results(const ring_inter_host *a) {
  return a->rounds + 1;
}

static uint64_t inter_host_halving_result(const ring_inter_host *a, uint64_t shard, int piece,
                                          uint64_t *length) {
  int round = piece == 0 ? a->rounds - 1 : a->rounds - piece;
  return inter_host_halving_block(a, shard, round,
                                  piece == 0 ? a->host : inter_host_halving_peer(a, round), length);
}

static void inter_host_halving_receive(ring_inter_host *a) {
  uint64_t to = a->received, kept, other;
  if (a->folds) {
    ring_schedule_lane(a->schedule, RING_LANE_RECV, a->drivers[a->partner]);
    ring_inter_host_receive(a, RING_SPACE_SCRATCH, to, a->length,
                            inter_host_combined(a, a->partner, 0));
    to += a->length;
  }
  for (int k = 0; k < a->rounds; k++) {
    int peer = inter_host_halving_peer(a, k);
    uint64_t begin = inter_host_halving_other(a, k, &other);
    inter_host_halving_kept(a, k, &kept);
    ring_schedule_lane(a->schedule, RING_LANE_RECV, a->drivers[peer]);
    ring_inter_host_receive(a, RING_SPACE_SCRATCH, to, kept,
                            inter_host_combined(a, peer, a->folds + k));
    ring_inter_host_receive(a, RING_SPACE_OUTPUT, a->begin + begin, other, false);
    to += kept;
  }
  a->schedule->scratch = to;
}

/* The watermark of the combines before a round; with `rounds`, the last one. */
static uint64_t inter_host_halving_mark(const ring_inter_host *a, int round) {
  uint64_t mark = inter_host_added(a, inter_host_halving_given(a)), kept;
  mark += (uint64_t)a->folds * (a->length + 1);
  for (int k = 0; k < round; k++) {
    inter_host_halving_kept(a, k, &kept);
    mark += kept + 1;
  }
  return mark;
}

/* Combines [offset, offset + length) with the data of an exchange at `with`. */
static void inter_host_halving_step(const ring_inter_host *a, int exchange, int peer,
                                    uint64_t offset, uint64_t length, uint64_t with) {
  bool first = exchange == 0, last = exchange == inter_host_exchanges(a) - 1;
  ring_step step = {.source = first ? (uint8_t)inter_host_sum_space(a) : RING_SPACE_SCRATCH,
                    .flags = peer < a->host ? RING_STEP_SWAPPED : 0,
                    .after = a->first_recv + exchange,
                    .from = (first ? inter_host_sum(a) : a->sum) + offset,
                    .to = (last ? a->begin : a->sum) + offset,
                    .with = with,
                    .count = length};
  ring_inter_host_combine(a, step, !first || a->places > 1, inter_host_combined(a, peer, exchange),
                          last);
}

/* Adds the combines, and then a fence for each block that is received complete: the marks that
 * sends wait for. */
static void inter_host_halving_combine(const ring_inter_host *a) {
  uint64_t with = a->received, kept, other;
  inter_host_halving_add_up(a);
  if (a->folds) {
    inter_host_halving_step(a, 0, a->partner, 0, a->length, with);
    with += a->length;
  }
  for (int k = 0; k < a->rounds; k++) {
    uint64_t begin = inter_host_halving_kept(a, k, &kept);
    inter_host_halving_step(a, a->folds + k, inter_host_halving_peer(a, k), begin, kept, with);
    with += kept;
  }
  for (int k = a->rounds - 1; k >= 0; k--) {
    inter_host_halving_kept(a, k, &kept);
    inter_host_halving_other(a, k, &other);
    ring_schedule_fence(a->schedule, a->first_recv + a->folds + k, kept + 1 + other + 1);
  }
}

/* Sends scratch or output that waits for a mark of the combines as a whole. */
static void inter_host_halving_send_whole(const ring_inter_host *a, ring_space space, uint64_t from,
                                          uint64_t count, uint64_t mark) {
  ring_inter_host_send(a, space, from, count, a->local, mark);
  a->schedule->steps[a->schedule->step_count - 1].flags |= RING_STEP_WHOLE;
}

/* The block that the other host keeps. */
static void inter_host_halving_send_block(const ring_inter_host *a, int round) {
  uint64_t length, begin = inter_host_halving_other(a, round, &length);
  if (round > 0)
    inter_host_halving_send_whole(a, RING_SPACE_SCRATCH, a->sum + begin, length,
                                  inter_host_halving_mark(a, round));
  else if (a->folds)
    ring_inter_host_send(a, RING_SPACE_SCRATCH, a->sum + begin, length, a->local,
                         inter_host_added(a, 1) + begin);
  else
    ring_inter_host_send_sum(a, begin, length, inter_host_adding(a, length));
}

static void inter_host_halving_send(const ring_inter_host *a) {
  uint64_t kept, all = inter_host_halving_mark(a, a->rounds);
  for (int k = 0; k < a->rounds; k++) {
    ring_schedule_lane(a->schedule, RING_LANE_SEND, a->drivers[inter_host_halving_peer(a, k)]);
    inter_host_halving_send_block(a, k);
    uint64_t begin = inter_host_halving_kept(a, k, &kept);
    inter_host_halving_send_whole(a, RING_SPACE_OUTPUT, a->begin + begin, kept,
                                  all + (uint64_t)(a->rounds - 1 - k));
  }
  if (!a->folds) return;
  ring_schedule_lane(a->schedule, RING_LANE_SEND, a->drivers[a->partner]);
  inter_host_halving_send_whole(a, RING_SPACE_OUTPUT, a->begin, a->length,
                                all + (uint64_t)a->rounds);
}

static void inter_host_halving_send_results(const ring_inter_host *a) {
  uint64_t length, kept;
  uint64_t begin = inter_host_halving_kept(a, a->rounds - 1, &length);
  ring_inter_host_send(a, RING_SPACE_OUTPUT, a->begin + begin, length, a->local,
                       inter_host_halving_mark(a, a->rounds - 1));
  for (int k = a->rounds - 1; k >= 0; k--) {
    inter_host_halving_kept(a, k, &kept);
    begin = inter_host_halving_other(a, k, &length);
    ring_inter_host_send(a, RING_SPACE_OUTPUT, a->begin + begin, length,
                         a->first_recv + a->folds + k, kept + 1);
  }
}

const ring_inter_host_way ring_inter_host_halving = {.given = inter_host_halving_given,
                                                     .given_piece = inter_host_halving_given_piece,
                                                     .results = inter_host_halving_results,
                                                     .result_piece = inter_host_halving_result,
                                                     .receive = inter_host_halving_receive,
                                                     .combine = inter_host_halving_combine,
                                                     .send = inter_host_halving_send,
                                                     .send_results =
                                                         inter_host_halving_send_results};
