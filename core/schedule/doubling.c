/* SPDX-License-Identifier: Apache-2.0
 *
 * Recursive doubling and halving: in every round a rank exchanges with the rank whose number
 * differs in one bit. A rank beyond the largest power of two is folded: it sends its input to a
 * partner inside before the rounds, and receives the result afterwards.
 *
 * Received data goes to scratch and is combined in its turn. The lower rank's value is the left
 * operand on both sides, so both get the same bits, even of a NaN.
 */
#include "schedule/builder.h"

typedef struct doubling {
  ring_schedule *schedule;
  int rank, rounds;
  int inside;    /* the largest power of two that is at most size */
  int partner;   /* the folded rank that this one serves, or the one that serves it; -1: none */
  int32_t local; /* lane of the combines */
} doubling;

static doubling doubling_begin(ring_schedule *schedule, int rank, int size) {
  doubling d = {.schedule = schedule, .rank = rank, .inside = 1, .partner = -1};
  while (d.inside <= size / 2) {
    d.inside *= 2;
    d.rounds++;
  }
  if (rank >= d.inside)
    d.partner = rank - d.inside;
  else if (rank + d.inside < size)
    d.partner = rank + d.inside;
  return d;
}

static void doubling_receive(const doubling *d, ring_space to_space, uint64_t to, uint64_t count,
                             bool wide) {
  ring_schedule_step(d->schedule, (ring_step){.op = RING_STEP_RECV,
                                              .destination = (uint8_t)to_space,
                                              .flags = wide ? RING_STEP_WIDE : 0,
                                              .after = RING_STEP_FREE,
                                              .to = to,
                                              .count = count});
}

static void doubling_send(const doubling *d, ring_space from_space, uint64_t from, uint64_t count,
                          int32_t after, uint64_t mark) {
  ring_schedule_step(d->schedule, (ring_step){.op = RING_STEP_SEND,
                                              .source = (uint8_t)from_space,
                                              .after = after,
                                              .mark = mark,
                                              .from = from,
                                              .count = count});
}

/* The whole schedule of a folded rank. */
static void doubling_fold(const doubling *d, uint64_t count) {
  ring_schedule_lane(d->schedule, RING_LANE_RECV, d->partner);
  doubling_receive(d, RING_SPACE_OUTPUT, 0, count, false);
  ring_schedule_lane(d->schedule, RING_LANE_SEND, d->partner);
  doubling_send(d, RING_SPACE_INPUT, 0, count, RING_STEP_FREE, 0);
}

static ring_status doubling_alone(ring_schedule *schedule, uint64_t count) {
  ring_schedule_copy_lane(schedule, 0, 0, count);
  return RING_OK;
}

/* ---- Doubling ----------------------------------------------------------------------------- */

/* Exchange e is the fold, if there is one, and then the rounds. It receives at scratch 2 e count
 * and puts its result behind that. The last exchange puts its result in the output. */
static int doubling_peer(const doubling *d, int exchange) {
  int round = d->partner >= 0 ? exchange - 1 : exchange;
  return round < 0 ? d->partner : d->rank ^ (1 << round);
}

/* Whether the data that the peer sends in an exchange was combined before. */
static bool doubling_combined(const doubling *d, int exchange, int size) {
  int round = d->partner >= 0 ? exchange - 1 : exchange;
  return round > 0 || (round == 0 && doubling_peer(d, exchange) + d->inside < size);
}

static void doubling_receives(const doubling *d, int size, uint64_t count, int exchanges,
                              bool widen) {
  for (int e = 0; e < exchanges; e++) {
    ring_schedule_lane(d->schedule, RING_LANE_RECV, doubling_peer(d, e));
    doubling_receive(d, RING_SPACE_SCRATCH, 2 * (uint64_t)e * count, count,
                     widen && doubling_combined(d, e, size));
  }
}

static void doubling_combines(const doubling *d, int size, uint64_t count, int exchanges,
                              bool widen) {
  for (int e = 0; e < exchanges; e++) {
    bool first = e == 0, last = e == exchanges - 1;
    uint64_t slot = 2 * (uint64_t)e * count;
    ring_step step = {.op = RING_STEP_COMBINE,
                      .source = first ? RING_SPACE_INPUT : RING_SPACE_SCRATCH,
                      .destination = last ? RING_SPACE_OUTPUT : RING_SPACE_SCRATCH,
                      .after = e,
                      .mark = 0,
                      .from = first ? 0 : slot - count,
                      .to = last ? 0 : slot + count,
                      .with = slot,
                      .count = count};
    if (widen && doubling_combined(d, e, size)) step.flags |= RING_STEP_WIDE;
    if (widen && !first) step.flags |= RING_STEP_SOURCE_WIDE;
    if (doubling_peer(d, e) < d->rank) step.flags |= RING_STEP_SWAPPED;
    if (last) step.flags |= RING_STEP_LAST;
    /* In place the output is the input, which must be sent before it is overwritten. */
    if (last && d->partner < 0) ring_schedule_fence(d->schedule, d->local + 1, count + 1);
    ring_schedule_step(d->schedule, step);
  }
}

ring_status ring_schedule_allreduce_doubling(ring_schedule *schedule, int rank, int size,
                                             uint64_t count, bool widen) {
  doubling d = doubling_begin(schedule, rank, size);
  size_t lanes = 2 * (size_t)d.rounds + 3;
  ring_status status = ring_schedule_reserve(schedule, lanes, 2 * lanes);
  if (status != RING_OK) return status;
  if (size == 1) return doubling_alone(schedule, count);
  if (rank >= d.inside) {
    doubling_fold(&d, count);
    return RING_OK;
  }
  int exchanges = d.rounds + (d.partner >= 0 ? 1 : 0);
  doubling_receives(&d, size, count, exchanges, widen);
  d.local = ring_schedule_lane(schedule, RING_LANE_LOCAL, -1);
  doubling_combines(&d, size, count, exchanges, widen);
  for (int e = exchanges - d.rounds; e < exchanges; e++) {
    ring_schedule_lane(schedule, RING_LANE_SEND, doubling_peer(&d, e));
    uint64_t before = (uint64_t)(e - 1);
    if (e == 0)
      doubling_send(&d, RING_SPACE_INPUT, 0, count, RING_STEP_FREE, 0);
    else
      doubling_send(&d, RING_SPACE_SCRATCH, (2 * before + 1) * count, count, d.local,
                    before * (count + 1));
  }
  if (d.partner >= 0) {
    ring_schedule_lane(schedule, RING_LANE_SEND, d.partner);
    doubling_send(&d, RING_SPACE_OUTPUT, 0, count, d.local, (uint64_t)d.rounds * (count + 1));
  }
  schedule->scratch = 2 * (uint64_t)exchanges * count;
  return RING_OK;
}

/* ---- Halving, then doubling --------------------------------------------------------------- */

/* In round k, blocks of inside / 2^(k+1) shares are exchanged: first each rank keeps and reduces the
 * block it lies in and sends the other one; on the way back it sends the kept block, by then
 * complete, and gets the other. */
static int halving_distance(const doubling *d, int round) {
  return d->inside >> (round + 1);
}

/* The block of round `round` that holds share `share`: its first element and its length. */
static uint64_t halving_block(const doubling *d, uint64_t count, int round, int share,
                              uint64_t *length) {
  int distance = halving_distance(d, round), first = share & ~(distance - 1);
  uint64_t begin = schedule_share_begin(count, d->inside, first);
  *length = schedule_share_begin(count, d->inside, first + distance) - begin;
  return begin;
}

/* One lane a round: first the block to be reduced, at scratch `slot`, then the other block,
 * complete. */
static uint64_t halving_receives(const doubling *d, uint64_t count, uint64_t slot) {
  for (int k = 0; k < d->rounds; k++) {
    int peer = d->rank ^ halving_distance(d, k);
    uint64_t kept, other;
    halving_block(d, count, k, d->rank, &kept);
    uint64_t begin = halving_block(d, count, k, peer, &other);
    ring_schedule_lane(d->schedule, RING_LANE_RECV, peer);
    doubling_receive(d, RING_SPACE_SCRATCH, slot, kept, false);
    doubling_receive(d, RING_SPACE_OUTPUT, begin, other, false);
    slot += kept;
  }
  return slot;
}

static void halving_combine(const doubling *d, ring_space source, int32_t received, int peer,
                            uint64_t begin, uint64_t length, uint64_t slot, bool last) {
  ring_schedule_step(d->schedule,
                     (ring_step){.op = RING_STEP_COMBINE,
                                 .source = (uint8_t)source,
                                 .destination = RING_SPACE_OUTPUT,
                                 .flags = (uint8_t)((peer < d->rank ? RING_STEP_SWAPPED : 0) |
                                                    (last ? RING_STEP_LAST : 0)),
                                 .after = received,
                                 .from = begin,
                                 .to = begin,
                                 .with = slot,
                                 .count = length});
}

/* Adds the combines, and then a fence for each block that is received complete: the marks that
 * sends wait for. */
static void halving_combines(const doubling *d, uint64_t count) {
  bool folds = d->partner >= 0;
  int32_t first = folds ? 1 : 0; /* lane of round 0 */
  uint64_t slot = folds ? count : 0, kept, other;
  if (folds) halving_combine(d, RING_SPACE_INPUT, 0, d->partner, 0, count, 0, false);
  for (int k = 0; k < d->rounds; k++) {
    uint64_t begin = halving_block(d, count, k, d->rank, &kept);
    halving_combine(d, k == 0 && !folds ? RING_SPACE_INPUT : RING_SPACE_OUTPUT, first + k,
                    d->rank ^ halving_distance(d, k), begin, kept, slot, k == d->rounds - 1);
    slot += kept;
  }
  for (int k = d->rounds - 1; k >= 0; k--) {
    halving_block(d, count, k, d->rank, &kept);
    halving_block(d, count, k, d->rank ^ halving_distance(d, k), &other);
    ring_schedule_fence(d->schedule, first + k, kept + 1 + other + 1);
  }
}

/* Adds a send of output that waits for the local lane's mark as a whole. */
static void halving_send_whole(const doubling *d, uint64_t from, uint64_t count, uint64_t mark) {
  doubling_send(d, RING_SPACE_OUTPUT, from, count, d->local, mark);
  d->schedule->steps[d->schedule->step_count - 1].flags = RING_STEP_WHOLE;
}

/* Sends the block of a round only once the round before is combined. It could leave piece by
 * piece earlier, but where all ranks send at once this slows the sends of the round before, on
 * which others wait: a quarter more time for long vectors. `all`: the watermark of the local
 * lane after all combines. */
static void halving_sends(const doubling *d, uint64_t count, uint64_t all) {
  bool folds = d->partner >= 0;
  uint64_t mark = folds ? count + 1 : 0, kept, other;
  for (int k = 0; k < d->rounds; k++) {
    int peer = d->rank ^ halving_distance(d, k);
    uint64_t begin = halving_block(d, count, k, d->rank, &kept);
    uint64_t begin_other = halving_block(d, count, k, peer, &other);
    ring_schedule_lane(d->schedule, RING_LANE_SEND, peer);
    if (k > 0)
      halving_send_whole(d, begin_other, other, mark);
    else if (folds)
      doubling_send(d, RING_SPACE_OUTPUT, begin_other, other, d->local, begin_other);
    else
      doubling_send(d, RING_SPACE_INPUT, begin_other, other, RING_STEP_FREE, 0);
    halving_send_whole(d, begin, kept, all + (uint64_t)(d->rounds - 1 - k));
    mark += kept + 1;
  }
}

ring_status ring_schedule_allreduce_halving(ring_schedule *schedule, int rank, int size,
                                            uint64_t count) {
  doubling d = doubling_begin(schedule, rank, size);
  size_t lanes = 2 * (size_t)d.rounds + 3;
  ring_status status = ring_schedule_reserve(schedule, lanes, 3 * lanes);
  if (status != RING_OK) return status;
  if (size == 1) return doubling_alone(schedule, count);
  if (rank >= d.inside) {
    doubling_fold(&d, count);
    return RING_OK;
  }
  bool folds = d.partner >= 0;
  if (folds) {
    ring_schedule_lane(schedule, RING_LANE_RECV, d.partner);
    doubling_receive(&d, RING_SPACE_SCRATCH, 0, count, false);
  }
  schedule->scratch = halving_receives(&d, count, folds ? count : 0);
  d.local = ring_schedule_lane(schedule, RING_LANE_LOCAL, -1);
  halving_combines(&d, count);
  uint64_t combined = folds ? count + 1 : 0, kept;
  for (int k = 0; k < d.rounds; k++) {
    halving_block(&d, count, k, rank, &kept);
    combined += kept + 1;
  }
  halving_sends(&d, count, combined);
  if (!folds) return RING_OK;
  ring_schedule_lane(schedule, RING_LANE_SEND, d.partner);
  halving_send_whole(&d, 0, count, combined + (uint64_t)d.rounds);
  return RING_OK;
}
