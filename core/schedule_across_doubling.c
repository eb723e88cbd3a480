/* SPDX-License-Identifier: Apache-2.0
 *
 * Across hosts: recursive doubling, and halving then doubling, as in schedule_doubling.c, among the
 * drivers of a shard. Exchange e is the fold, if there is one, then the rounds.
 */
#include "schedule_across.h"

void ring_across_fold(ring_across *a) {
  a->inside = 1;
  while (a->inside <= a->hosts / 2) {
    a->inside *= 2;
    a->rounds++;
  }
  a->partner = a->host >= a->inside ? a->host - a->inside : a->host + a->inside;
  a->folds = a->partner < a->hosts;
  a->folded = a->host >= a->inside;
}

static int across_exchanges(const ring_across *a) {
  return a->rounds + a->folds;
}

/* Whether what another host sends in an exchange was combined from several ranks' inputs. */
static bool across_combined(const ring_across *a, int peer, int exchange) {
  if (a->ranks[peer] > 1 || exchange > a->folds) return true;
  return exchange == a->folds && peer + a->inside < a->hosts;
}

/* The combines' watermark when all ranks of this host are added up, in so many pieces; and before the
 * last rank is added to a first piece. */
static uint64_t across_added(const ring_across *a, int pieces) {
  return (uint64_t)(a->places - 1) * (a->length + (uint64_t)pieces);
}

static uint64_t across_adding(const ring_across *a, uint64_t length) {
  return (uint64_t)(a->places - 2) * (length + 1);
}

/* ---- A folded host ------------------------------------------------------------------------ */

/* It gives its sum to its partner and gets the result from it. */
static void across_folded_receive(ring_across *a) {
  ring_schedule_lane(a->schedule, RING_LANE_RECV, a->drivers[a->partner]);
  ring_across_receive(a, RING_SPACE_OUTPUT, a->begin, a->length, false);
  a->schedule->scratch = a->came;
}

static void across_folded_send(const ring_across *a) {
  ring_schedule_lane(a->schedule, RING_LANE_SEND, a->drivers[a->partner]);
  ring_across_send_sum(a, 0, a->length, across_adding(a, a->length));
}

static void across_folded_send_result(const ring_across *a) {
  ring_across_send(a, RING_SPACE_OUTPUT, a->begin, a->length, a->heard, 0);
}

static void across_add_up(const ring_across *a) {
  ring_across_add_up(a, 0, a->length, 0);
}

const ring_across_way ring_across_folded = {.given = ring_across_one,
                                            .given_piece = ring_across_whole,
                                            .results = ring_across_one,
                                            .result_piece = ring_across_whole,
                                            .receive = across_folded_receive,
                                            .combine = across_add_up,
                                            .send = across_folded_send,
                                            .send_results = across_folded_send_result};

/* ---- Doubling ----------------------------------------------------------------------------- */

/* An exchange receives at `came`, and leaves its result behind all that comes, e shards on; the last
 * one leaves it in the output. */
static int across_doubling_peer(const ring_across *a, int exchange) {
  return exchange < a->folds ? a->partner : a->host ^ (1 << (exchange - a->folds));
}

static uint64_t across_doubling_place(const ring_across *a, int exchange) {
  return a->came + (uint64_t)(across_exchanges(a) + exchange) * a->length;
}

static void across_doubling_receive(ring_across *a) {
  for (int e = 0; e < across_exchanges(a); e++) {
    int peer = across_doubling_peer(a, e);
    ring_schedule_lane(a->schedule, RING_LANE_RECV, a->drivers[peer]);
    ring_across_receive(a, RING_SPACE_SCRATCH, a->came + (uint64_t)e * a->length, a->length,
                        across_combined(a, peer, e));
  }
  a->schedule->scratch = across_doubling_place(a, across_exchanges(a));
}

/* The combines' watermark before that of an exchange. An input that was sent as it is has to have left
 * before, in place, the last one overwrites it: a fence sees to that. */
static bool across_doubling_fences(const ring_across *a, int exchange) {
  return exchange == across_exchanges(a) - 1 && a->places == 1 && !a->folds;
}

static uint64_t across_doubling_before(const ring_across *a, int exchange) {
  return across_added(a, 1) + (uint64_t)exchange * (a->length + 1) +
         (across_doubling_fences(a, exchange) ? 1 : 0);
}

static void across_doubling_combine(const ring_across *a) {
  int exchanges = across_exchanges(a);
  across_add_up(a);
  for (int e = 0; e < exchanges; e++) {
    bool first = e == 0, last = e == exchanges - 1;
    int peer = across_doubling_peer(a, e);
    ring_step step = {.source = first ? (uint8_t)across_sum_space(a) : RING_SPACE_SCRATCH,
                      .flags = peer < a->host ? RING_STEP_SWAPPED : 0,
                      .after = a->heard + e,
                      .from = first ? across_sum(a) : across_doubling_place(a, e - 1),
                      .to = last ? a->begin : across_doubling_place(a, e),
                      .with = a->came + (uint64_t)e * a->length,
                      .count = a->length};
    if (across_doubling_fences(a, e)) ring_schedule_fence(a->schedule, a->local + 1, a->length + 1);
    ring_across_combine(a, step, !first || a->places > 1, across_combined(a, peer, e), last);
  }
}

static void across_doubling_send_result(const ring_across *a) {
  ring_across_send(a, RING_SPACE_OUTPUT, a->begin, a->length, a->local,
                   across_doubling_before(a, across_exchanges(a) - 1));
}

static void across_doubling_send(const ring_across *a) {
  for (int e = a->folds; e < across_exchanges(a); e++) {
    ring_schedule_lane(a->schedule, RING_LANE_SEND, a->drivers[across_doubling_peer(a, e)]);
    if (e == 0)
      ring_across_send_sum(a, 0, a->length, across_adding(a, a->length));
    else
      ring_across_send(a, RING_SPACE_SCRATCH, across_doubling_place(a, e - 1), a->length, a->local,
                       across_doubling_before(a, e - 1));
  }
  if (!a->folds) return;
  ring_schedule_lane(a->schedule, RING_LANE_SEND, a->drivers[a->partner]);
  across_doubling_send_result(a);
}

const ring_across_way ring_across_doubling = {.given = ring_across_one,
                                              .given_piece = ring_across_whole,
                                              .results = ring_across_one,
                                              .result_piece = ring_across_whole,
                                              .receive = across_doubling_receive,
                                              .combine = across_doubling_combine,
                                              .send = across_doubling_send,
                                              .send_results = across_doubling_send_result};

/* ---- Halving, then doubling --------------------------------------------------------------- */

/* Partial sums stay at `sum`. A block is what round `round` exchanges; here the one that holds share
 * `share` of a shard. */
static int across_halving_distance(const ring_across *a, int round) {
  /* NOLINTNEXTLINE(clang-analyzer-core.BitwiseShift): rounds count from 0 */
  return a->inside >> (round + 1);
}

static int across_halving_peer(const ring_across *a, int round) {
  return a->host ^ across_halving_distance(a, round);
}

static uint64_t across_halving_block(const ring_across *a, uint64_t shard, int round, int share,
                                     uint64_t *length) {
  int distance = across_halving_distance(a, round), first = share & ~(distance - 1);
  uint64_t begin = schedule_share_begin(shard, a->inside, first);
  *length = schedule_share_begin(shard, a->inside, first + distance) - begin;
  return begin;
}

static uint64_t across_halving_kept(const ring_across *a, int round, uint64_t *length) {
  return across_halving_block(a, a->length, round, a->host, length);
}

static uint64_t across_halving_other(const ring_across *a, int round, uint64_t *length) {
  return across_halving_block(a, a->length, round, across_halving_peer(a, round), length);
}

/* What round 0 sends is given and added up before what it keeps, unless a fold needs all first. */
static int across_halving_given(const ring_across *a) {
  return a->folds ? 1 : 2;
}

static uint64_t across_halving_given_piece(const ring_across *a, uint64_t shard, int piece,
                                           uint64_t *length) {
  if (a->folds) return ring_across_whole(a, shard, piece, length);
  return across_halving_block(a, shard, 0, piece == 0 ? across_halving_peer(a, 0) : a->host,
                              length);
}

static void across_halving_add_up(const ring_across *a) {
  uint64_t mark = 0, length;
  for (int piece = 0; piece < across_halving_given(a); piece++) {
    uint64_t offset = across_halving_given_piece(a, a->length, piece, &length);
    ring_across_add_up(a, offset, length, mark);
    mark += length + 1;
  }
}

/* The own share first, then what the rounds bring back, the last round first. */
static int across_halving_results(const ring_across *a) {
  return a->rounds + 1;
}

static uint64_t across_halving_result(const ring_across *a, uint64_t shard, int piece,
                                      uint64_t *length) {
  int round = piece == 0 ? a->rounds - 1 : a->rounds - piece;
  return across_halving_block(a, shard, round, piece == 0 ? a->host : across_halving_peer(a, round),
                              length);
}

static void across_halving_receive(ring_across *a) {
  uint64_t to = a->came, kept, other;
  if (a->folds) {
    ring_schedule_lane(a->schedule, RING_LANE_RECV, a->drivers[a->partner]);
    ring_across_receive(a, RING_SPACE_SCRATCH, to, a->length, across_combined(a, a->partner, 0));
    to += a->length;
  }
  for (int k = 0; k < a->rounds; k++) {
    int peer = across_halving_peer(a, k);
    uint64_t begin = across_halving_other(a, k, &other);
    across_halving_kept(a, k, &kept);
    ring_schedule_lane(a->schedule, RING_LANE_RECV, a->drivers[peer]);
    ring_across_receive(a, RING_SPACE_SCRATCH, to, kept, across_combined(a, peer, a->folds + k));
    ring_across_receive(a, RING_SPACE_OUTPUT, a->begin + begin, other, false);
    to += kept;
  }
  a->schedule->scratch = to;
}

/* The combines' watermark before that of a round; `rounds` of them is the end. */
static uint64_t across_halving_mark(const ring_across *a, int round) {
  uint64_t mark = across_added(a, across_halving_given(a)), kept;
  mark += (uint64_t)a->folds * (a->length + 1);
  for (int k = 0; k < round; k++) {
    across_halving_kept(a, k, &kept);
    mark += kept + 1;
  }
  return mark;
}

/* Combines [offset, offset + length) with what came in an exchange at `with`. */
static void across_halving_step(const ring_across *a, int exchange, int peer, uint64_t offset,
                                uint64_t length, uint64_t with) {
  bool first = exchange == 0, last = exchange == across_exchanges(a) - 1;
  ring_step step = {.source = first ? (uint8_t)across_sum_space(a) : RING_SPACE_SCRATCH,
                    .flags = peer < a->host ? RING_STEP_SWAPPED : 0,
                    .after = a->heard + exchange,
                    .from = (first ? across_sum(a) : a->sum) + offset,
                    .to = (last ? a->begin : a->sum) + offset,
                    .with = with,
                    .count = length};
  ring_across_combine(a, step, !first || a->places > 1, across_combined(a, peer, exchange), last);
}

/* Combines, and then a fence for every block that comes back: the marks that sends wait for. */
static void across_halving_combine(const ring_across *a) {
  uint64_t with = a->came, kept, other;
  across_halving_add_up(a);
  if (a->folds) {
    across_halving_step(a, 0, a->partner, 0, a->length, with);
    with += a->length;
  }
  for (int k = 0; k < a->rounds; k++) {
    uint64_t begin = across_halving_kept(a, k, &kept);
    across_halving_step(a, a->folds + k, across_halving_peer(a, k), begin, kept, with);
    with += kept;
  }
  for (int k = a->rounds - 1; k >= 0; k--) {
    across_halving_kept(a, k, &kept);
    across_halving_other(a, k, &other);
    ring_schedule_fence(a->schedule, a->heard + a->folds + k, kept + 1 + other + 1);
  }
}

/* Sends scratch or output that waits for the combines' mark as a whole. */
static void across_halving_send_whole(const ring_across *a, ring_space space, uint64_t from,
                                      uint64_t count, uint64_t mark) {
  ring_across_send(a, space, from, count, a->local, mark);
  a->schedule->steps[a->schedule->step_count - 1].flags |= RING_STEP_WHOLE;
}

/* The block that the other host keeps. */
static void across_halving_send_block(const ring_across *a, int round) {
  uint64_t length, begin = across_halving_other(a, round, &length);
  if (round > 0)
    across_halving_send_whole(a, RING_SPACE_SCRATCH, a->sum + begin, length,
                              across_halving_mark(a, round));
  else if (a->folds)
    ring_across_send(a, RING_SPACE_SCRATCH, a->sum + begin, length, a->local,
                     across_added(a, 1) + begin);
  else
    ring_across_send_sum(a, begin, length, across_adding(a, length));
}

static void across_halving_send(const ring_across *a) {
  uint64_t kept, all = across_halving_mark(a, a->rounds);
  for (int k = 0; k < a->rounds; k++) {
    ring_schedule_lane(a->schedule, RING_LANE_SEND, a->drivers[across_halving_peer(a, k)]);
    across_halving_send_block(a, k);
    uint64_t begin = across_halving_kept(a, k, &kept);
    across_halving_send_whole(a, RING_SPACE_OUTPUT, a->begin + begin, kept,
                              all + (uint64_t)(a->rounds - 1 - k));
  }
  if (!a->folds) return;
  ring_schedule_lane(a->schedule, RING_LANE_SEND, a->drivers[a->partner]);
  across_halving_send_whole(a, RING_SPACE_OUTPUT, a->begin, a->length, all + (uint64_t)a->rounds);
}

static void across_halving_send_results(const ring_across *a) {
  uint64_t length, kept;
  uint64_t begin = across_halving_kept(a, a->rounds - 1, &length);
  ring_across_send(a, RING_SPACE_OUTPUT, a->begin + begin, length, a->local,
                   across_halving_mark(a, a->rounds - 1));
  for (int k = a->rounds - 1; k >= 0; k--) {
    across_halving_kept(a, k, &kept);
    begin = across_halving_other(a, k, &length);
    ring_across_send(a, RING_SPACE_OUTPUT, a->begin + begin, length, a->heard + a->folds + k,
                     kept + 1);
  }
}

const ring_across_way ring_across_halving = {.given = across_halving_given,
                                             .given_piece = across_halving_given_piece,
                                             .results = across_halving_results,
                                             .result_piece = across_halving_result,
                                             .receive = across_halving_receive,
                                             .combine = across_halving_combine,
                                             .send = across_halving_send,
                                             .send_results = across_halving_send_results};
