/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/builder.h"

#include <stdlib.h>

static void *builder_grow(void *items, size_t *capacity, size_t need, size_t item_size) {
  if (need <= *capacity) return items;
  void *grown = realloc(items, need * item_size);
  if (grown != NULL) *capacity = need;
  return grown;
}

ring_status ring_schedule_reserve(ring_schedule *schedule, size_t lanes, size_t steps) {
  schedule->lane_count = 0;
  schedule->step_count = 0;
  schedule->scratch = 0;
  schedule->reduces = false;
  ring_lane *more_lanes =
      builder_grow(schedule->lanes, &schedule->lane_capacity, lanes, sizeof *more_lanes);
  if (more_lanes == NULL) return RING_NO_MEMORY;
  schedule->lanes = more_lanes;
  ring_step *more_steps =
      builder_grow(schedule->steps, &schedule->step_capacity, steps, sizeof *more_steps);
  if (more_steps == NULL) return RING_NO_MEMORY;
  schedule->steps = more_steps;
  return RING_OK;
}

int32_t ring_schedule_lane(ring_schedule *schedule, ring_lane_kind kind, int peer) {
  schedule->lanes[schedule->lane_count] =
      (ring_lane){.kind = kind, .peer = peer, .first = schedule->step_count};
  return (int32_t)schedule->lane_count++;
}

void ring_schedule_step(ring_schedule *schedule, ring_step step) {
  schedule->steps[schedule->step_count++] = step;
  schedule->lanes[schedule->lane_count - 1].count++;
  if (step.op == RING_STEP_REDUCE) schedule->reduces = true;
}

void ring_schedule_copy_lane(ring_schedule *schedule, uint64_t from, uint64_t to, uint64_t count) {
  ring_schedule_lane(schedule, RING_LANE_LOCAL, -1);
  ring_schedule_step(schedule, (ring_step){.op = RING_STEP_COPY,
                                           .source = RING_SPACE_INPUT,
                                           .destination = RING_SPACE_OUTPUT,
                                           .after = RING_STEP_FREE,
                                           .from = from,
                                           .to = to,
                                           .count = count});
}

void ring_schedule_fence(ring_schedule *schedule, int32_t lane, uint64_t mark) {
  ring_schedule_step(
      schedule,
      (ring_step){.op = RING_STEP_COPY, .flags = RING_STEP_WHOLE, .after = lane, .mark = mark});
}
