/* SPDX-License-Identifier: Apache-2.0
 *
 * Direct exchange: every rank sends to every rank at once and reduces in rank order, which costs
 * one round of latency and size-1 links. For few ranks and short buffers. A message between two
 * ranks is built here, too.
 */
#include "schedule/builder.h"

typedef struct direct {
  int rank, size;
  uint64_t count;
  const ring_parts *parts; /* of the input, one for each rank; NULL: all ranks get the same */
  bool widen;
} direct;

/* The lane that receives from a peer. All ranks but this one have such a lane, in rank order. */
static int32_t direct_recv_lane(const direct *d, int peer) {
  return peer - (peer > d->rank ? 1 : 0);
}

static uint64_t direct_slot(const direct *d, int peer) {
  return (uint64_t)peer * d->count;
}

/* The elements of the input that a rank gets. */
static uint64_t direct_begin(const direct *d, int peer) {
  return d->parts != NULL ? schedule_part_begin(*d->parts, peer) : 0;
}

static uint64_t direct_length(const direct *d, int peer) {
  return d->parts != NULL ? schedule_part_count(*d->parts, peer) : d->count;
}

/* Adds term `index` to the sum of the terms before it; scratch `size` is the accumulator. */
static ring_step direct_combine(const direct *d, int index) {
  uint64_t sum = direct_slot(d, d->size);
  ring_step step = {.op = RING_STEP_COMBINE,
                    .source = RING_SPACE_SCRATCH,
                    .destination = RING_SPACE_SCRATCH,
                    .flags = d->widen ? RING_STEP_SOURCE_WIDE : 0,
                    .after = direct_recv_lane(d, index),
                    .from = sum,
                    .to = sum,
                    .with = direct_slot(d, index),
                    .count = d->count};
  if (index == 1) {
    step.flags = 0;
    step.from = direct_slot(d, 0);
  }
  if (index == d->rank || (index == 1 && d->rank == 0)) {
    step.source = RING_SPACE_INPUT;
    step.from = direct_begin(d, d->rank);
  }
  if (index == d->rank) {
    step.flags = RING_STEP_SWAPPED | (d->widen && index > 1 ? RING_STEP_WIDE : 0);
    step.with = index > 1 ? sum : direct_slot(d, 0);
    step.after = index > 1 ? RING_STEP_FREE : direct_recv_lane(d, 0);
  }
  if (index < d->size - 1) return step;
  step.flags |= RING_STEP_LAST;
  step.destination = RING_SPACE_OUTPUT;
  step.to = 0;
  return step;
}

static void direct_combines(const direct *d, ring_schedule *schedule) {
  int32_t local = ring_schedule_lane(schedule, RING_LANE_LOCAL, -1);
  if (d->rank > 1) ring_schedule_fence(schedule, direct_recv_lane(d, 0), d->count + 1);
  for (int index = 1; index < d->size; index++) {
    /* In place the output is the input, which must be sent before it is overwritten. */
    if (index == d->size - 1)
      for (int away = 1; away < d->size; away++)
        ring_schedule_fence(schedule, local + away,
                            direct_length(d, schedule_wrap(d->rank + away, d->size)) + 1);
    ring_schedule_step(schedule, direct_combine(d, index));
  }
}

static ring_status direct_build(const direct *d, ring_schedule *schedule) {
  size_t others = (size_t)(d->size - 1);
  ring_status status = ring_schedule_reserve(schedule, 2 * others + 1, 4 * others + 2);
  if (status != RING_OK) return status;
  if (d->size == 1) {
    ring_schedule_copy_lane(schedule, 0, 0, d->count);
    return RING_OK;
  }
  for (int peer = 0; peer < d->size; peer++) {
    if (peer == d->rank) continue;
    ring_schedule_lane(schedule, RING_LANE_RECV, peer);
    ring_schedule_step(schedule, (ring_step){.op = RING_STEP_RECV,
                                             .destination = RING_SPACE_SCRATCH,
                                             .after = RING_STEP_FREE,
                                             .to = direct_slot(d, peer),
                                             .count = d->count});
  }
  direct_combines(d, schedule);
  for (int away = 1; away < d->size; away++) {
    int peer = schedule_wrap(d->rank + away, d->size);
    ring_schedule_lane(schedule, RING_LANE_SEND, peer);
    ring_schedule_step(schedule, (ring_step){.op = RING_STEP_SEND,
                                             .source = RING_SPACE_INPUT,
                                             .after = RING_STEP_FREE,
                                             .from = direct_begin(d, peer),
                                             .count = direct_length(d, peer)});
  }
  schedule->scratch = direct_slot(d, d->size + 1);
  return RING_OK;
}

ring_status ring_schedule_allreduce_direct(ring_schedule *schedule, int rank, int size,
                                           uint64_t count, bool widen) {
  return direct_build(&(direct){rank, size, count, NULL, widen}, schedule);
}

ring_status ring_schedule_reduce_scatter_direct(ring_schedule *schedule, int rank, int size,
                                                ring_parts parts, bool widen) {
  uint64_t count = schedule_part_count(parts, rank);
  return direct_build(&(direct){rank, size, count, &parts, widen}, schedule);
}

/* ---- Messages ----------------------------------------------------------------------------- */

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
