/* SPDX-License-Identifier: Apache-2.0
 *
 * Across hosts: a ring. A shard is cut into one part a host; the parts are the pieces. They are
 * added up in the order in which the rounds of this host need them: the own part, which is sent
 * first, then the part of each round. Each piece of the result is sent to the ranks of the host as
 * the ring completes it.
 */
#include "schedule/inter_host_steps.h"

/* Part `part` of a shard. */
static uint64_t inter_host_ring_part(const ring_inter_host *a, uint64_t shard, int part,
                                     uint64_t *length) {
  part = schedule_wrap(part, a->hosts);
  *length = schedule_share_count(shard, a->hosts, part);
  return schedule_share_begin(shard, a->hosts, part);
}

static int inter_host_ring_pieces(const ring_inter_host *a) {
  return a->hosts;
}

static uint64_t inter_host_ring_given(const ring_inter_host *a, uint64_t shard, int piece,
                                      uint64_t *length) {
  return inter_host_ring_part(a, shard, a->host - piece, length);
}

static uint64_t inter_host_ring_result(const ring_inter_host *a, uint64_t shard, int piece,
                                       uint64_t *length) {
  return inter_host_ring_part(a, shard, a->host + 1 - piece, length);
}

/* The elements of so many given pieces of the own shard, plus their number. After the last piece
 * the first follows. */
static uint64_t inter_host_ring_mark(const ring_inter_host *a, int pieces) {
  int top = a->host + 1, rest = pieces % a->hosts, bottom = schedule_wrap(top - rest, a->hosts);
  uint64_t around = a->length * (uint64_t)(pieces / a->hosts) + (uint64_t)pieces;
  if (rest == 0) return around;
  if (rest > top) around += a->length;
  return around + schedule_share_begin(a->length, a->hosts, top) -
         schedule_share_begin(a->length, a->hosts, bottom);
}

/* Round s receives part host-1-s of the shard, first to be reduced, then complete. */
static uint64_t inter_host_ring_round(const ring_inter_host *a, int round, uint64_t *length) {
  return inter_host_ring_part(a, a->length, a->host - 1 - round, length);
}

/* The watermark before a round: all parts but the own that were received before. */
static uint64_t inter_host_ring_round_mark(const ring_inter_host *a, int round) {
  return inter_host_ring_mark(a, round + 1) - inter_host_ring_mark(a, 1);
}

/* The watermark of the combines before the part of a round is combined: piece 0 and those of all
 * rounds so far were added up. */
static uint64_t inter_host_ring_before(const ring_inter_host *a, int round) {
  return (uint64_t)(a->places - 1) * inter_host_ring_mark(a, round + 2) +
         inter_host_ring_round_mark(a, round);
}

static int inter_host_ring_previous(const ring_inter_host *a) {
  return schedule_wrap(a->host - 1, a->hosts);
}

static void inter_host_ring_receive(ring_inter_host *a) {
  int previous = inter_host_ring_previous(a);
  ring_schedule_lane(a->schedule, RING_LANE_RECV, a->drivers[previous]);
  for (int s = 0; s < 2 * (a->hosts - 1); s++) {
    uint64_t length, offset = inter_host_ring_round(a, s, &length);
    if (s < a->hosts - 1)
      ring_inter_host_receive(a, RING_SPACE_SCRATCH, a->received + offset, length,
                              s > 0 || a->ranks[previous] > 1);
    else
      ring_inter_host_receive(a, RING_SPACE_OUTPUT, a->begin + offset, length, false);
  }
  a->schedule->scratch = a->received + a->length;
}

static void inter_host_ring_add_up(const ring_inter_host *a, int piece) {
  uint64_t length, offset = inter_host_ring_given(a, a->length, piece, &length);
  ring_inter_host_add_up(a, offset, length, inter_host_ring_mark(a, piece));
}

static void inter_host_ring_combine(const ring_inter_host *a) {
  int previous = inter_host_ring_previous(a);
  inter_host_ring_add_up(a, 0);
  for (int s = 0; s < a->hosts - 1; s++) {
    inter_host_ring_add_up(a, s + 1);
    bool last = s == a->hosts - 2;
    uint64_t length, offset = inter_host_ring_round(a, s, &length);
    ring_step step = {.source = (uint8_t)inter_host_sum_space(a),
                      .after = a->first_recv,
                      .mark = inter_host_ring_round_mark(a, s),
                      .from = inter_host_sum(a) + offset,
                      .to = (last ? a->begin : a->sum) + offset,
                      .with = a->received + offset,
                      .count = length};
    ring_inter_host_combine(a, step, a->places > 1, s > 0 || a->ranks[previous] > 1, last);
  }
}

/* Sends the part of a round, combined or as received. Before all rounds, sends the sum of this
 * host. */
static void inter_host_ring_send_round(const ring_inter_host *a, int round) {
  uint64_t length, offset = inter_host_ring_round(a, round, &length);
  if (round < 0)
    ring_inter_host_send_sum(a, offset, length, (uint64_t)(a->places - 2) * (length + 1));
  else if (round < a->hosts - 2)
    ring_inter_host_send(a, RING_SPACE_SCRATCH, a->sum + offset, length, a->local,
                         inter_host_ring_before(a, round));
  else if (round == a->hosts - 2)
    ring_inter_host_send(a, RING_SPACE_OUTPUT, a->begin + offset, length, a->local,
                         inter_host_ring_before(a, round));
  else
    ring_inter_host_send(a, RING_SPACE_OUTPUT, a->begin + offset, length, a->first_recv,
                         inter_host_ring_round_mark(a, round));
}

static void inter_host_ring_send(const ring_inter_host *a) {
  ring_schedule_lane(a->schedule, RING_LANE_SEND, a->drivers[schedule_wrap(a->host + 1, a->hosts)]);
  for (int s = 0; s < 2 * (a->hosts - 1); s++) inter_host_ring_send_round(a, s - 1);
}

static void inter_host_ring_send_results(const ring_inter_host *a) {
  for (int s = a->hosts - 2; s < 2 * (a->hosts - 1); s++) inter_host_ring_send_round(a, s);
}

const ring_inter_host_way ring_inter_host_ring = {.given = inter_host_ring_pieces,
                                                  .given_piece = inter_host_ring_given,
                                                  .results = inter_host_ring_pieces,
                                                  .result_piece = inter_host_ring_result,
                                                  .receive = inter_host_ring_receive,
                                                  .combine = inter_host_ring_combine,
                                                  .send = inter_host_ring_send,
                                                  .send_results = inter_host_ring_send_results};
