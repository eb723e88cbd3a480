/* SPDX-License-Identifier: Apache-2.0
 *
 * Scans: rank r gets the reduction of the inputs of ranks 0 to r (inclusive), or of 0 to r-1
 * (exclusive). The exclusive scan writes nothing on rank 0, whose output has no input to come from.
 *
 * Doubling (Hillis and Steele, 1986): in round k a rank sends what it has reduced so far, the inputs
 * of 2^k ranks at most, to the rank 2^k ahead. In a chain every rank receives from the rank before
 * it and sends to the rank after it, element by element.
 *
 * Received data is the left operand: it comes from lower ranks.
 */
#include "schedule/builder.h"

typedef struct scan {
  ring_schedule *schedule;
  int rank, size;
  uint64_t count;
  bool widen, exclusive;
  int receives;  /* rounds in which this rank receives: 0 to receives-1 */
  int32_t local; /* lane of the combines */
  uint64_t mark; /* watermark of the local lane before its next step */
} scan;

static void scan_receive(const scan *s, int peer, uint64_t to, bool wide) {
  ring_schedule_lane(s->schedule, RING_LANE_RECV, peer);
  ring_schedule_step(s->schedule, (ring_step){.op = RING_STEP_RECV,
                                              .destination = RING_SPACE_SCRATCH,
                                              .flags = s->widen && wide ? RING_STEP_WIDE : 0,
                                              .after = RING_STEP_FREE,
                                              .to = to,
                                              .count = s->count});
}

static void scan_send(const scan *s, int peer, ring_space source, uint64_t from, int32_t after,
                      uint64_t mark) {
  ring_schedule_lane(s->schedule, RING_LANE_SEND, peer);
  ring_schedule_step(s->schedule, (ring_step){.op = RING_STEP_SEND,
                                              .source = (uint8_t)source,
                                              .after = after,
                                              .mark = mark,
                                              .from = from,
                                              .count = s->count});
}

/* Adds a local step that follows the receive lane `received` from `mark` on. */
static void scan_local(scan *s, ring_step step, int32_t received, uint64_t mark) {
  step.after = received;
  step.mark = mark;
  step.count = s->count;
  ring_schedule_step(s->schedule, step);
  s->mark += s->count + 1;
}

static void scan_fence(scan *s, int32_t lane) {
  ring_schedule_fence(s->schedule, lane, s->count + 1);
  s->mark++;
}

/* A copy of scratch `from` to the output; accumulators are rounded. */
static ring_step scan_output(const scan *s, uint64_t from, bool wide) {
  return (ring_step){.op = RING_STEP_COPY,
                     .source = RING_SPACE_SCRATCH,
                     .destination = RING_SPACE_OUTPUT,
                     .flags = s->widen && wide ? RING_STEP_SOURCE_WIDE : 0,
                     .from = from};
}

/* ---- Doubling ----------------------------------------------------------------------------- */

/* Scratch holds what round k received, the inclusive and the exclusive partial result after it. */
static uint64_t scan_doubling_received(const scan *s, int round) {
  return (uint64_t)round * s->count;
}

static uint64_t scan_doubling_partial(const scan *s, int round) {
  return (uint64_t)(s->receives + round) * s->count;
}

static uint64_t scan_doubling_before(const scan *s, int round) {
  return (uint64_t)(2 * s->receives + round) * s->count;
}

static bool scan_doubling_sends(const scan *s, int round) {
  return s->rank + (1 << round) < s->size;
}

/* Whether the data that a round receives was combined before. */
static bool scan_doubling_is_wide(const scan *s, int round) {
  return round > 0 && s->rank > 1 << round;
}

/* Before the output is written: in place it is the input, which must have been sent. */
static void scan_doubling_fence_input(scan *s) {
  if (scan_doubling_sends(s, 0)) scan_fence(s, s->local + 1);
}

static ring_step scan_doubling_combine(const scan *s, int round, bool source_wide) {
  unsigned wide = s->widen && scan_doubling_is_wide(s, round) ? RING_STEP_WIDE : 0;
  unsigned from = s->widen && source_wide ? RING_STEP_SOURCE_WIDE : 0;
  return (ring_step){.op = RING_STEP_COMBINE,
                     .source = RING_SPACE_SCRATCH,
                     .destination = RING_SPACE_SCRATCH,
                     .flags = (uint8_t)(RING_STEP_SWAPPED | wide | from),
                     .with = scan_doubling_received(s, round)};
}

/* Combines what round `round` received with the partial result before it. */
static void scan_doubling_inclusive(scan *s, int round, bool to_output) {
  ring_step step = scan_doubling_combine(s, round, round > 0);
  if (round == 0)
    step.source = RING_SPACE_INPUT;
  else
    step.from = scan_doubling_partial(s, round - 1);
  step.to = scan_doubling_partial(s, round);
  if (to_output) {
    scan_doubling_fence_input(s);
    step.destination = RING_SPACE_OUTPUT;
    step.to = 0;
  }
  scan_local(s, step, round, 0);
}

/* The same without this rank's input. What round 0 received is the first partial result. */
static void scan_doubling_exclusive(scan *s, int round) {
  bool last = round == s->receives - 1;
  if (round == 0 && !last) {
    scan_fence(s, 0);
    return;
  }
  ring_step step = scan_output(s, scan_doubling_received(s, 0), false);
  if (round > 0) {
    step = scan_doubling_combine(s, round, round > 1);
    step.from = round > 1 ? scan_doubling_before(s, round - 1) : scan_doubling_received(s, 0);
    step.to = scan_doubling_before(s, round);
  }
  if (last) {
    scan_doubling_fence_input(s);
    step.destination = RING_SPACE_OUTPUT;
    step.to = 0;
  }
  scan_local(s, step, round, 0);
}

/* Adds the local steps; marks[k] becomes the watermark from which the partial result after k
 * rounds is there. */
static void scan_doubling_combines(scan *s, uint64_t *marks) {
  s->local = ring_schedule_lane(s->schedule, RING_LANE_LOCAL, -1);
  for (int k = 0; k < s->receives; k++) {
    bool last = k == s->receives - 1, kept = scan_doubling_sends(s, k + 1);
    bool to_output = !s->exclusive && last && !(kept && s->widen);
    if (to_output && scan_doubling_sends(s, 0))
      marks[k + 1] = s->mark + 1; /* behind the fence */
    else
      marks[k + 1] = s->mark;
    if (kept || !s->exclusive) scan_doubling_inclusive(s, k, to_output);
    if (s->exclusive) scan_doubling_exclusive(s, k);
    if (!s->exclusive && last && !to_output) {
      scan_doubling_fence_input(s);
      scan_local(s, scan_output(s, scan_doubling_partial(s, k), true), RING_STEP_FREE, 0);
    }
  }
}

ring_status ring_schedule_scan_doubling(ring_schedule *schedule, int rank, int size, uint64_t count,
                                        bool widen, bool exclusive) {
  scan s = {schedule, rank, size, count, widen, exclusive, 0, 0, 0};
  uint64_t marks[8 * sizeof(int)] = {0};
  size_t rounds = (size_t)schedule_rounds(size);
  ring_status status = ring_schedule_reserve(schedule, 2 * rounds + 1, 5 * rounds + 3);
  if (status != RING_OK) return status;
  while (1 << s.receives <= rank) s.receives++;
  for (int k = 0; k < s.receives; k++)
    scan_receive(&s, rank - (1 << k), scan_doubling_received(&s, k), scan_doubling_is_wide(&s, k));
  if (s.receives > 0) scan_doubling_combines(&s, marks);
  if (s.receives == 0 && !exclusive) ring_schedule_copy_lane(schedule, 0, 0, count);
  for (int k = 0; scan_doubling_sends(&s, k); k++) {
    int done = k < s.receives ? k : s.receives;
    bool at_output = !exclusive && !widen && done > 0 && done == s.receives;
    if (done == 0)
      scan_send(&s, rank + (1 << k), RING_SPACE_INPUT, 0, RING_STEP_FREE, 0);
    else
      scan_send(&s, rank + (1 << k), at_output ? RING_SPACE_OUTPUT : RING_SPACE_SCRATCH,
                at_output ? 0 : scan_doubling_partial(&s, done - 1), s.local, marks[done]);
  }
  schedule->scratch = (uint64_t)(exclusive ? 3 : 2) * (uint64_t)s.receives * count;
  return RING_OK;
}

/* ---- Chain -------------------------------------------------------------------------------- */

/* A rank whose result is all that it sends reduces what it receives into its output. */
static void scan_chain_reduce(scan *s) {
  ring_schedule_lane(s->schedule, RING_LANE_RECV, s->rank - 1);
  ring_schedule_step(s->schedule,
                     (ring_step){.op = RING_STEP_REDUCE,
                                 .source = RING_SPACE_INPUT,
                                 .destination = RING_SPACE_OUTPUT,
                                 .flags = (uint8_t)(RING_STEP_LAST |
                                                    (s->widen && s->rank > 1 ? RING_STEP_WIDE : 0)),
                                 .after = RING_STEP_FREE,
                                 .count = s->count});
  if (s->rank < s->size - 1) scan_send(s, s->rank + 1, RING_SPACE_OUTPUT, 0, 0, 0);
}

/* Else it keeps what it receives in scratch, and behind that what it sends. */
static void scan_chain_combine(scan *s) {
  bool wide = s->rank > 1, sends = s->rank < s->size - 1;
  ring_step step = {.op = RING_STEP_COMBINE,
                    .source = RING_SPACE_INPUT,
                    .destination = RING_SPACE_SCRATCH,
                    .flags = (uint8_t)(RING_STEP_SWAPPED | (s->widen && wide ? RING_STEP_WIDE : 0)),
                    .to = s->count};
  scan_receive(s, s->rank - 1, 0, wide);
  s->local = ring_schedule_lane(s->schedule, RING_LANE_LOCAL, -1);
  if (sends) scan_local(s, step, 0, 0);
  if (s->exclusive)
    scan_local(s, scan_output(s, 0, wide), 0, 0);
  else
    scan_local(s, scan_output(s, s->count, true), RING_STEP_FREE, 0);
  if (sends) scan_send(s, s->rank + 1, RING_SPACE_SCRATCH, s->count, s->local, 0);
  s->schedule->scratch = 2 * s->count;
}

ring_status ring_schedule_scan_chain(ring_schedule *schedule, int rank, int size, uint64_t count,
                                     bool widen, bool exclusive) {
  scan s = {schedule, rank, size, count, widen, exclusive, 0, 0, 0};
  ring_status status = ring_schedule_reserve(schedule, 3, 4);
  if (status != RING_OK) return status;
  if (rank == 0) {
    if (!exclusive) ring_schedule_copy_lane(schedule, 0, 0, count);
    if (size > 1) scan_send(&s, 1, RING_SPACE_INPUT, 0, RING_STEP_FREE, 0);
  } else if (!exclusive && (!widen || rank == size - 1)) {
    scan_chain_reduce(&s);
  } else {
    scan_chain_combine(&s);
  }
  return RING_OK;
}
