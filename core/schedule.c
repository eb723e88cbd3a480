/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule.h"

#include <stdlib.h>

static void schedule_reset(ring_schedule *schedule) {
  schedule->lane_count = 0;
  schedule->step_count = 0;
  schedule->scratch = 0;
}

void ring_schedule_free(ring_schedule *schedule) {
  free(schedule->lanes);
  free(schedule->steps);
  *schedule = (ring_schedule){0};
}

/* Makes room for `need` items; a builder reserves once, so adding cannot fail. */
static void *schedule_grow(void *items, size_t *room, size_t need, size_t item_size) {
  if (need <= *room) return items;
  void *grown = realloc(items, need * item_size);
  if (grown != NULL) *room = need;
  return grown;
}

static ring_status schedule_reserve(ring_schedule *schedule, size_t lanes, size_t steps) {
  schedule_reset(schedule);
  ring_lane *more_lanes =
      schedule_grow(schedule->lanes, &schedule->lane_room, lanes, sizeof *more_lanes);
  if (more_lanes == NULL) return RING_NO_MEMORY;
  schedule->lanes = more_lanes;
  ring_step *more_steps =
      schedule_grow(schedule->steps, &schedule->step_room, steps, sizeof *more_steps);
  if (more_steps == NULL) return RING_NO_MEMORY;
  schedule->steps = more_steps;
  return RING_OK;
}

/* Begins a lane; the steps added next belong to it. Returns its index. */
static int32_t schedule_lane(ring_schedule *schedule, ring_lane_kind kind, int peer) {
  schedule->lanes[schedule->lane_count] =
      (ring_lane){.kind = kind, .peer = peer, .first = schedule->step_count};
  return (int32_t)schedule->lane_count++;
}

static void schedule_step(ring_schedule *schedule, ring_step step) {
  schedule->steps[schedule->step_count++] = step;
  schedule->lanes[schedule->lane_count - 1].count++;
}

static int schedule_wrap(int rank, int size) {
  return ((rank % size) + size) % size;
}

/* Part `index` of count elements cut into `size` parts whose lengths differ by one at most. */
static uint64_t schedule_part_begin(uint64_t count, int size, int index) {
  uint64_t longer = count % (uint64_t)size, i = (uint64_t)index;
  return count / (uint64_t)size * i + (i < longer ? i : longer);
}

static uint64_t schedule_part_count(uint64_t count, int size, int index) {
  return count / (uint64_t)size + ((uint64_t)index < count % (uint64_t)size ? 1 : 0);
}

static void schedule_copy_lane(ring_schedule *schedule, uint64_t to, uint64_t count) {
  schedule_lane(schedule, RING_LANE_LOCAL, -1);
  schedule_step(schedule, (ring_step){.op = RING_STEP_COPY,
                                      .source = RING_SPACE_INPUT,
                                      .destination = RING_SPACE_OUTPUT,
                                      .after = RING_STEP_FREE,
                                      .to = to,
                                      .count = count});
}

/* Receives of the ring allreduce: step s brings part rank-1-s, first to be reduced, then final. */
static int32_t schedule_allreduce_receives(ring_schedule *schedule, int rank, int size,
                                           uint64_t count, bool widen) {
  uint8_t partial = widen ? RING_SPACE_SCRATCH : RING_SPACE_OUTPUT;
  int32_t lane = schedule_lane(schedule, RING_LANE_RECV, schedule_wrap(rank - 1, size));
  for (int s = 0; s < 2 * (size - 1); s++) {
    int part = schedule_wrap(rank - 1 - s, size);
    bool reduce = s < size - 1, last = s == size - 2;
    uint64_t begin = schedule_part_begin(count, size, part);
    ring_step step = {.op = reduce ? RING_STEP_REDUCE : RING_STEP_RECV,
                      .source = RING_SPACE_INPUT,
                      .destination = reduce && !last ? partial : RING_SPACE_OUTPUT,
                      .flags = (uint8_t)((reduce && widen && s > 0 ? RING_STEP_WIDE : 0) |
                                         (last ? RING_STEP_LAST : 0)),
                      .after = RING_STEP_FREE,
                      .from = begin,
                      .to = begin,
                      .count = schedule_part_count(count, size, part)};
    schedule_step(schedule, step);
  }
  return lane;
}

ring_status ring_schedule_allreduce(ring_schedule *schedule, int rank, int size, uint64_t count,
                                    bool widen) {
  size_t rounds = 2 * (size_t)(size - 1);
  ring_status status = schedule_reserve(schedule, 2, 2 * rounds + 1);
  if (status != RING_OK) return status;
  if (size == 1) {
    schedule_copy_lane(schedule, 0, count);
    return RING_OK;
  }
  int32_t receives = schedule_allreduce_receives(schedule, rank, size, count, widen);
  schedule_lane(schedule, RING_LANE_SEND, schedule_wrap(rank + 1, size));
  uint64_t mark = 0;
  for (int s = 0; s < 2 * (size - 1); s++) {
    int part = schedule_wrap(rank - s, size);
    uint64_t begin = schedule_part_begin(count, size, part);
    uint64_t length = schedule_part_count(count, size, part);
    bool partial = s > 0 && s < size - 1;
    ring_step step = {.op = RING_STEP_SEND,
                      .source = partial && widen ? RING_SPACE_SCRATCH : RING_SPACE_OUTPUT,
                      .after = receives,
                      .mark = mark,
                      .from = begin,
                      .count = length};
    if (s == 0) {
      step.source = RING_SPACE_INPUT;
      step.after = RING_STEP_FREE;
    } else {
      mark += length + 1;
    }
    schedule_step(schedule, step);
  }
  schedule->scratch = widen && size > 2 ? count : 0;
  return RING_OK;
}

ring_status ring_schedule_allgather(ring_schedule *schedule, int rank, int size, uint64_t count) {
  size_t rounds = (size_t)(size - 1);
  ring_status status = schedule_reserve(schedule, 3, 2 * rounds + 1);
  if (status != RING_OK) return status;
  schedule_copy_lane(schedule, (uint64_t)rank * count, count);
  if (size == 1) return RING_OK;
  int32_t receives = schedule_lane(schedule, RING_LANE_RECV, schedule_wrap(rank - 1, size));
  for (int s = 0; s < size - 1; s++)
    schedule_step(schedule, (ring_step){.op = RING_STEP_RECV,
                                        .destination = RING_SPACE_OUTPUT,
                                        .after = RING_STEP_FREE,
                                        .to = (uint64_t)schedule_wrap(rank - 1 - s, size) * count,
                                        .count = count});
  schedule_lane(schedule, RING_LANE_SEND, schedule_wrap(rank + 1, size));
  for (int s = 0; s < size - 1; s++) {
    ring_step step = {.op = RING_STEP_SEND,
                      .source = s == 0 ? RING_SPACE_INPUT : RING_SPACE_OUTPUT,
                      .after = s == 0 ? RING_STEP_FREE : receives,
                      .mark = s == 0 ? 0 : (uint64_t)(s - 1) * (count + 1),
                      .from = s == 0 ? 0 : (uint64_t)schedule_wrap(rank - s, size) * count,
                      .count = count};
    schedule_step(schedule, step);
  }
  return RING_OK;
}

ring_status ring_schedule_broadcast(ring_schedule *schedule, int rank, int size, uint64_t count,
                                    int root) {
  ring_status status = schedule_reserve(schedule, 33, 33);
  if (status != RING_OK) return status;
  int place = schedule_wrap(rank - root, size); /* 0 is the root of the tree */
  int reach = 1;                                /* ranks in this rank's subtree, a power of two */
  while (reach < size && (place & reach) == 0) reach <<= 1;
  int32_t feed = RING_STEP_FREE;
  if (place == 0) {
    schedule_copy_lane(schedule, 0, count);
  } else {
    feed = schedule_lane(schedule, RING_LANE_RECV, schedule_wrap(place - reach + root, size));
    schedule_step(schedule, (ring_step){.op = RING_STEP_RECV,
                                        .destination = RING_SPACE_OUTPUT,
                                        .after = RING_STEP_FREE,
                                        .count = count});
  }
  for (int distance = reach >> 1; distance > 0; distance >>= 1) {
    if (place + distance >= size) continue;
    schedule_lane(schedule, RING_LANE_SEND, schedule_wrap(place + distance + root, size));
    ring_step step = {.op = RING_STEP_SEND,
                      .source = place == 0 ? RING_SPACE_INPUT : RING_SPACE_OUTPUT,
                      .after = feed,
                      .count = count};
    schedule_step(schedule, step);
  }
  return RING_OK;
}

/* Receives are never held back: a rank that fails says so behind what it sent before. The local
 * lane counts the rounds of which this and all earlier ones were heard. */
ring_status ring_schedule_barrier(ring_schedule *schedule, int rank, int size) {
  size_t rounds = 0;
  while ((UINT64_C(1) << rounds) < (uint64_t)size) rounds++;
  ring_status status = schedule_reserve(schedule, 2 * rounds + 1, 3 * rounds + 1);
  if (status != RING_OK || rounds == 0) return status;
  for (size_t k = 0; k < rounds; k++) {
    schedule_lane(schedule, RING_LANE_RECV, schedule_wrap(rank - (1 << k), size));
    schedule_step(schedule, (ring_step){.op = RING_STEP_RECV, .after = RING_STEP_FREE});
  }
  int32_t heard = schedule_lane(schedule, RING_LANE_LOCAL, -1);
  for (size_t k = 0; k < rounds; k++)
    schedule_step(schedule, (ring_step){.op = RING_STEP_COPY, .after = (int32_t)k});
  for (size_t k = 0; k < rounds; k++) {
    schedule_lane(schedule, RING_LANE_SEND, schedule_wrap(rank + (1 << k), size));
    ring_step step = {.op = RING_STEP_SEND, .after = k == 0 ? RING_STEP_FREE : heard};
    step.mark = k == 0 ? 0 : k - 1;
    schedule_step(schedule, step);
  }
  return RING_OK;
}
