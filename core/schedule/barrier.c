/* SPDX-License-Identifier: Apache-2.0
 *
 * Barrier by dissemination (Hensgen, Finkel and Manber, 1988). In round k each rank sends an empty
 * step to the rank 2^k ahead and receives one from the rank 2^k behind. Round k is sent only after
 * all earlier rounds were received.
 */
#include "schedule/builder.h"

/* The watermark of the local lane counts the rounds that were received without a gap. */
ring_status ring_schedule_barrier(ring_schedule *schedule, int rank, int size) {
  int rounds = schedule_rounds(size);
  size_t lanes = 2 * (size_t)rounds + 1;
  ring_status status = ring_schedule_reserve(schedule, lanes, lanes + (size_t)rounds);
  if (status != RING_OK || rounds == 0) return status;
  for (int k = 0; k < rounds; k++) {
    ring_schedule_lane(schedule, RING_LANE_RECV, schedule_wrap(rank - (1 << k), size));
    ring_schedule_step(schedule, (ring_step){.op = RING_STEP_RECV, .after = RING_STEP_FREE});
  }
  int32_t received = ring_schedule_lane(schedule, RING_LANE_LOCAL, -1);
  for (int k = 0; k < rounds; k++) ring_schedule_fence(schedule, k, 1);
  for (int k = 0; k < rounds; k++) {
    ring_schedule_lane(schedule, RING_LANE_SEND, schedule_wrap(rank + (1 << k), size));
    ring_schedule_step(schedule, (ring_step){.op = RING_STEP_SEND,
                                             .flags = RING_STEP_WHOLE,
                                             .after = k == 0 ? RING_STEP_FREE : received,
                                             .mark = (uint64_t)k});
  }
  return RING_OK;
}
