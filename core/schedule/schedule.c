/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "schedule/builder.h"

const ring_schedule ring_schedule_empty;

void ring_schedule_free(ring_schedule *schedule) {
  free(schedule->lanes);
  free(schedule->steps);
  *schedule = (ring_schedule){0};
}

static void *schedule_grow(void *items, size_t *capacity, size_t need, size_t item_size) {
  if (need <= *capacity) return items;
  void *grown = realloc(items, need * item_size);
  if (grown != NULL) *capacity = need;
  return grown;
}

ring_status ring_schedule_reserve(ring_schedule *schedule, size_t lanes, size_t steps) {
  schedule->lane_count = 0;
  schedule->step_count = 0;
  schedule->scratch = 0;
  ring_lane *more_lanes =
      schedule_grow(schedule->lanes, &schedule->lane_capacity, lanes, sizeof *more_lanes);
  if (more_lanes == NULL) return RING_NO_MEMORY;
  schedule->lanes = more_lanes;
  ring_step *more_steps =
      schedule_grow(schedule->steps, &schedule->step_capacity, steps, sizeof *more_steps);
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

ring_status ring_schedule_send(ring_schedule *schedule, int peer, uint64_t count) {
  ring_status status = ring_schedule_reserve(schedule, 1, 1);
  if (status != RING_OK) return status;
  ring_schedule_lane(schedule, RING_LANE_SEND, peer);
  ring_schedule_step(schedule, (ring_step){.op = RING_STEP_SEND,
                                           .source = RING_SPACE_INPUT,
                                           .after = RING_STEP_FREE,
                                           .count = count});
  return RING_OK;
}

ring_status ring_schedule_recv(ring_schedule *schedule, int peer, uint64_t count) {
  ring_status status = ring_schedule_reserve(schedule, 1, 1);
  if (status != RING_OK) return status;
  ring_schedule_lane(schedule, RING_LANE_RECV, peer);
  ring_schedule_step(schedule, (ring_step){.op = RING_STEP_RECV,
                                           .destination = RING_SPACE_OUTPUT,
                                           .after = RING_STEP_FREE,
                                           .count = count});
  return RING_OK;
}

/* The local lane counts the rounds of which this and all earlier ones were heard. */
ring_status ring_schedule_barrier(ring_schedule *schedule, int rank, int size) {
  int rounds = schedule_rounds(size);
  size_t lanes = 2 * (size_t)rounds + 1;
  ring_status status = ring_schedule_reserve(schedule, lanes, lanes + (size_t)rounds);
  if (status != RING_OK || rounds == 0) return status;
  for (int k = 0; k < rounds; k++) {
    ring_schedule_lane(schedule, RING_LANE_RECV, schedule_wrap(rank - (1 << k), size));
    ring_schedule_step(schedule, (ring_step){.op = RING_STEP_RECV, .after = RING_STEP_FREE});
  }
  int32_t heard = ring_schedule_lane(schedule, RING_LANE_LOCAL, -1);
  for (int k = 0; k < rounds; k++) ring_schedule_fence(schedule, k, 1);
  for (int k = 0; k < rounds; k++) {
    ring_schedule_lane(schedule, RING_LANE_SEND, schedule_wrap(rank + (1 << k), size));
    ring_schedule_step(schedule, (ring_step){.op = RING_STEP_SEND,
                                             .flags = RING_STEP_WHOLE,
                                             .after = k == 0 ? RING_STEP_FREE : heard,
                                             .mark = (uint64_t)k});
  }
  return RING_OK;
}
