/* SPDX-License-Identifier: Apache-2.0
 *
 * Tools of the files that build schedules: lanes and steps, and the arithmetic of ranks and parts.
 * A builder reserves memory once, so that adding cannot fail.
 */
#ifndef RING_SCHEDULE_BUILDER_H
#define RING_SCHEDULE_BUILDER_H

#include "schedule/schedule.h"

/* Empties the schedule and reserves memory for this many lanes and steps. */
ring_status ring_schedule_reserve(ring_schedule *schedule, size_t lanes, size_t steps);

/* Begins a lane; the steps added next belong to it. Returns its index. */
int32_t ring_schedule_lane(ring_schedule *schedule, ring_lane_kind kind, int peer);

void ring_schedule_step(ring_schedule *schedule, ring_step step);

/* A lane of one step that copies the input to its place in the output. */
void ring_schedule_copy_lane(ring_schedule *schedule, uint64_t from, uint64_t to, uint64_t count);

/* A local step without elements that ends when `lane` has reached `mark`. */
void ring_schedule_fence(ring_schedule *schedule, int32_t lane, uint64_t mark);

static inline int schedule_wrap(int rank, int size) {
  return ((rank % size) + size) % size;
}

static inline uint64_t schedule_part_begin(ring_parts parts, int index) {
  return parts.offsets != NULL ? parts.offsets[index] : parts.count * (uint64_t)index;
}

static inline uint64_t schedule_part_count(ring_parts parts, int index) {
  return schedule_part_begin(parts, index + 1) - schedule_part_begin(parts, index);
}

/* The same for `count` elements cut into shares whose lengths differ by one at most. */
static inline uint64_t schedule_share_begin(uint64_t count, int size, int index) {
  uint64_t longer = count % (uint64_t)size, i = (uint64_t)index;
  return count / (uint64_t)size * i + (i < longer ? i : longer);
}

static inline uint64_t schedule_share_count(uint64_t count, int size, int index) {
  return count / (uint64_t)size + ((uint64_t)index < count % (uint64_t)size ? 1 : 0);
}

/* ceil(log2 size) */
static inline int schedule_rounds(int size) {
  int rounds = 0;
  while ((INT64_C(1) << rounds) < size) rounds++;
  return rounds;
}

#endif
