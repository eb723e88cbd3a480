/* SPDX-License-Identifier: Apache-2.0
 *
 * Rings: every rank receives from the rank before it and sends to the rank after it. Each round
 * sends the data that the round before received. Watermarks forward each element at once.
 */
#include "schedule/builder.h"

/* Adds the receives of the rounds that reduce: in round s the share `begin(s)`. The last one
 * goes to `final`. */
static ring_step ring_reduce_step(bool widen, int round, int rounds) {
  bool last = round == rounds - 1;
  return (ring_step){
      .op = RING_STEP_REDUCE,
      .source = RING_SPACE_INPUT,
      .destination = last ? RING_SPACE_OUTPUT : RING_SPACE_SCRATCH,
      .flags = (uint8_t)((widen && round > 0 ? RING_STEP_WIDE : 0) | (last ? RING_STEP_LAST : 0)),
      .after = RING_STEP_FREE};
}

/* ---- Allreduce ---------------------------------------------------------------------------- */

/* Step s receives share rank-1-s, first to be reduced, then final. */
static int32_t ring_allreduce_receives(ring_schedule *schedule, int rank, int size, uint64_t count,
                                       bool widen) {
  int rounds = size - 1;
  int32_t lane = ring_schedule_lane(schedule, RING_LANE_RECV, schedule_wrap(rank - 1, size));
  for (int s = 0; s < 2 * rounds; s++) {
    int share = schedule_wrap(rank - 1 - s, size);
    ring_step step = {.op = RING_STEP_RECV, .after = RING_STEP_FREE};
    if (s < rounds) step = ring_reduce_step(widen, s, rounds);
    if (s >= rounds || !widen) step.destination = RING_SPACE_OUTPUT;
    step.from = step.to = schedule_share_begin(count, size, share);
    step.count = schedule_share_count(count, size, share);
    ring_schedule_step(schedule, step);
  }
  return lane;
}

ring_status ring_schedule_allreduce_ring(ring_schedule *schedule, int rank, int size,
                                         uint64_t count, bool widen) {
  ring_status status = ring_schedule_reserve(schedule, 2, 4 * (size_t)(size - 1) + 1);
  if (status != RING_OK) return status;
  if (size == 1) {
    ring_schedule_copy_lane(schedule, 0, 0, count);
    return RING_OK;
  }
  int32_t receives = ring_allreduce_receives(schedule, rank, size, count, widen);
  ring_schedule_lane(schedule, RING_LANE_SEND, schedule_wrap(rank + 1, size));
  uint64_t mark = 0;
  for (int s = 0; s < 2 * (size - 1); s++) {
    int share = schedule_wrap(rank - s, size);
    bool partial = s > 0 && s < size - 1;
    ring_step step = {.op = RING_STEP_SEND,
                      .source = partial && widen ? RING_SPACE_SCRATCH : RING_SPACE_OUTPUT,
                      .after = receives,
                      .mark = mark,
                      .from = schedule_share_begin(count, size, share),
                      .count = schedule_share_count(count, size, share)};
    if (s == 0) {
      step.source = RING_SPACE_INPUT;
      step.after = RING_STEP_FREE;
    } else {
      mark += step.count + 1;
    }
    ring_schedule_step(schedule, step);
  }
  schedule->scratch = widen && size > 2 ? count : 0;
  return RING_OK;
}

/* ---- Reduce-scatter ----------------------------------------------------------------------- */

/* Part p starts at rank p+1 and ends, complete, at rank p. Partial results lie one behind another in
 * scratch. */
static int32_t ring_scatter_receives(ring_schedule *schedule, int rank, int size, ring_parts parts,
                                     bool widen) {
  int32_t lane = ring_schedule_lane(schedule, RING_LANE_RECV, schedule_wrap(rank - 1, size));
  for (int s = 0; s < size - 1; s++) {
    bool last = s == size - 2;
    int part = schedule_wrap(rank - 2 - s, size);
    ring_step step = ring_reduce_step(widen, s, size - 1);
    step.from = schedule_part_begin(parts, part);
    step.to = last ? 0 : schedule->scratch;
    step.count = schedule_part_count(parts, part);
    if (!last) schedule->scratch += step.count;
    ring_schedule_step(schedule, step);
  }
  return lane;
}

ring_status ring_schedule_reduce_scatter_ring(ring_schedule *schedule, int rank, int size,
                                              ring_parts parts, bool widen) {
  int rounds = size - 1;
  ring_status status = ring_schedule_reserve(schedule, 2, 2 * (size_t)rounds + 1);
  if (status != RING_OK) return status;
  if (size == 1) {
    ring_schedule_copy_lane(schedule, 0, 0, schedule_part_count(parts, 0));
    return RING_OK;
  }
  int32_t receives = ring_scatter_receives(schedule, rank, size, parts, widen);
  uint64_t mark = 0, at = 0;
  ring_schedule_lane(schedule, RING_LANE_SEND, schedule_wrap(rank + 1, size));
  for (int s = 0; s < rounds; s++) {
    int part = schedule_wrap(rank - 1 - s, size);
    ring_step step = {.op = RING_STEP_SEND,
                      .source = s == 0 ? RING_SPACE_INPUT : RING_SPACE_SCRATCH,
                      .after = s == 0 ? RING_STEP_FREE : receives,
                      .mark = mark,
                      .from = s == 0 ? schedule_part_begin(parts, part) : at,
                      .count = schedule_part_count(parts, part)};
    ring_schedule_step(schedule, step);
    if (s == 0) continue;
    at += step.count;
    mark += step.count + 1;
  }
  return RING_OK;
}

/* ---- Allgather ---------------------------------------------------------------------------- */

ring_status ring_schedule_allgather_ring(ring_schedule *schedule, int rank, int size,
                                         ring_parts parts) {
  ring_status status = ring_schedule_reserve(schedule, 3, 2 * (size_t)(size - 1) + 1);
  if (status != RING_OK) return status;
  ring_schedule_copy_lane(schedule, 0, schedule_part_begin(parts, rank),
                          schedule_part_count(parts, rank));
  if (size == 1) return RING_OK;
  int32_t receives = ring_schedule_lane(schedule, RING_LANE_RECV, schedule_wrap(rank - 1, size));
  for (int s = 0; s < size - 1; s++) {
    int part = schedule_wrap(rank - 1 - s, size);
    ring_schedule_step(schedule, (ring_step){.op = RING_STEP_RECV,
                                             .destination = RING_SPACE_OUTPUT,
                                             .after = RING_STEP_FREE,
                                             .to = schedule_part_begin(parts, part),
                                             .count = schedule_part_count(parts, part)});
  }
  ring_schedule_lane(schedule, RING_LANE_SEND, schedule_wrap(rank + 1, size));
  uint64_t mark = 0;
  for (int s = 0; s < size - 1; s++) {
    int part = schedule_wrap(rank - s, size);
    ring_step step = {.op = RING_STEP_SEND,
                      .source = s == 0 ? RING_SPACE_INPUT : RING_SPACE_OUTPUT,
                      .after = s == 0 ? RING_STEP_FREE : receives,
                      .mark = mark,
                      .from = s == 0 ? 0 : schedule_part_begin(parts, part),
                      .count = schedule_part_count(parts, part)};
    if (s > 0) mark += step.count + 1;
    ring_schedule_step(schedule, step);
  }
  return RING_OK;
}
