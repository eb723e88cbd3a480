/* SPDX-License-Identifier: Apache-2.0
 *
 * Broadcast and reduce by binomial trees and by chains, through which long buffers flow in chunks.
 * A rank's place is counted from the root. The subtree of place p has the places from p to before p
 * + reach, where reach is the lowest set bit of p (for the root: all).
 */
#include "schedule/builder.h"

static int tree_reach(int place, int size) {
  int reach = 1;
  while (reach < size && (place & reach) == 0) reach <<= 1;
  return reach;
}

static int tree_rank(int place, int root, int size) {
  return schedule_wrap(place + root, size);
}

/* ---- Broadcast ---------------------------------------------------------------------------- */

/* The lane that the sends follow: from `parent`, or, at the root, a copy that no send waits for. */
static int32_t tree_feed(ring_schedule *schedule, int place, int parent, uint64_t count) {
  if (place == 0) {
    ring_schedule_copy_lane(schedule, 0, 0, count);
    return RING_STEP_FREE;
  }
  int32_t lane = ring_schedule_lane(schedule, RING_LANE_RECV, parent);
  ring_schedule_step(schedule, (ring_step){.op = RING_STEP_RECV,
                                           .destination = RING_SPACE_OUTPUT,
                                           .after = RING_STEP_FREE,
                                           .count = count});
  return lane;
}

static void tree_pass_on(ring_schedule *schedule, int child, int32_t feed, uint64_t count) {
  ring_schedule_lane(schedule, RING_LANE_SEND, child);
  ring_schedule_step(
      schedule, (ring_step){.op = RING_STEP_SEND,
                            .source = feed == RING_STEP_FREE ? RING_SPACE_INPUT : RING_SPACE_OUTPUT,
                            .after = feed,
                            .count = count});
}

ring_status ring_schedule_broadcast_tree(ring_schedule *schedule, int rank, int size,
                                         uint64_t count, int root) {
  ring_status status = ring_schedule_reserve(schedule, 33, 33);
  if (status != RING_OK) return status;
  int place = schedule_wrap(rank - root, size), reach = tree_reach(place, size);
  int32_t feed = tree_feed(schedule, place, tree_rank(place - reach, root, size), count);
  for (int distance = reach >> 1; distance > 0; distance >>= 1)
    if (place + distance < size)
      tree_pass_on(schedule, tree_rank(place + distance, root, size), feed, count);
  return RING_OK;
}

ring_status ring_schedule_broadcast_chain(ring_schedule *schedule, int rank, int size,
                                          uint64_t count, int root) {
  ring_status status = ring_schedule_reserve(schedule, 2, 2);
  if (status != RING_OK) return status;
  int place = schedule_wrap(rank - root, size);
  int32_t feed = tree_feed(schedule, place, schedule_wrap(rank - 1, size), count);
  if (place < size - 1) tree_pass_on(schedule, schedule_wrap(rank + 1, size), feed, count);
  return RING_OK;
}

/* ---- Reduce ------------------------------------------------------------------------------- */

/* Child c (at distance 2^c) is received at scratch 2 c count. Its sum with the data before goes
 * behind that, or, for the last child, to the output of the root. */
static void tree_combine(ring_schedule *schedule, int child, bool leaf, bool last, uint64_t count,
                         bool widen) {
  uint64_t slot = 2 * (uint64_t)child * count;
  ring_step step = {.op = RING_STEP_COMBINE,
                    .source = child == 0 ? RING_SPACE_INPUT : RING_SPACE_SCRATCH,
                    .destination = last ? RING_SPACE_OUTPUT : RING_SPACE_SCRATCH,
                    .after = child,
                    .from = child == 0 ? 0 : slot - count,
                    .to = last ? 0 : slot + count,
                    .with = slot,
                    .count = count};
  if (widen && !leaf) step.flags |= RING_STEP_WIDE;
  if (widen && child > 0) step.flags |= RING_STEP_SOURCE_WIDE;
  if (last) step.flags |= RING_STEP_LAST;
  ring_schedule_step(schedule, step);
}

/* Receives and combines the data of the children. Returns the lane of the combines. */
static int32_t tree_collect(ring_schedule *schedule, int place, int root, int size, int children,
                            uint64_t count, bool widen) {
  for (int child = 0; child < children; child++) {
    int below = place + (1 << child);
    bool leaf = child == 0 || below + 1 >= size;
    ring_schedule_lane(schedule, RING_LANE_RECV, tree_rank(below, root, size));
    ring_schedule_step(schedule, (ring_step){.op = RING_STEP_RECV,
                                             .destination = RING_SPACE_SCRATCH,
                                             .flags = widen && !leaf ? RING_STEP_WIDE : 0,
                                             .after = RING_STEP_FREE,
                                             .to = 2 * (uint64_t)child * count,
                                             .count = count});
  }
  int32_t local = ring_schedule_lane(schedule, RING_LANE_LOCAL, -1);
  for (int child = 0; child < children; child++)
    tree_combine(schedule, child, child == 0 || place + (1 << child) + 1 >= size,
                 place == 0 && child == children - 1, count, widen);
  return local;
}

ring_status ring_schedule_reduce_tree(ring_schedule *schedule, int rank, int size, uint64_t count,
                                      int root, bool widen) {
  ring_status status = ring_schedule_reserve(schedule, 34, 66);
  if (status != RING_OK) return status;
  int place = schedule_wrap(rank - root, size), reach = tree_reach(place, size), children = 0;
  if (size == 1) {
    ring_schedule_copy_lane(schedule, 0, 0, count);
    return RING_OK;
  }
  while ((1 << children) < reach && place + (1 << children) < size) children++;
  int32_t local = RING_STEP_FREE;
  if (children > 0) local = tree_collect(schedule, place, root, size, children, count, widen);
  schedule->scratch = 2 * (uint64_t)children * count;
  if (place == 0) return RING_OK;
  uint64_t before = children > 0 ? (uint64_t)children - 1 : 0;
  ring_schedule_lane(schedule, RING_LANE_SEND, tree_rank(place - reach, root, size));
  ring_schedule_step(schedule,
                     (ring_step){.op = RING_STEP_SEND,
                                 .source = children > 0 ? RING_SPACE_SCRATCH : RING_SPACE_INPUT,
                                 .after = local,
                                 .mark = before * (count + 1),
                                 .from = children > 0 ? (2 * before + 1) * count : 0,
                                 .count = count});
  return RING_OK;
}

/* The last place begins; each place adds its own and sends the sum towards the root. */
ring_status ring_schedule_reduce_chain(ring_schedule *schedule, int rank, int size, uint64_t count,
                                       int root, bool widen) {
  ring_status status = ring_schedule_reserve(schedule, 2, 2);
  if (status != RING_OK) return status;
  if (size == 1) {
    ring_schedule_copy_lane(schedule, 0, 0, count);
    return RING_OK;
  }
  int place = schedule_wrap(rank - root, size);
  bool begins = place == size - 1, ends = place == 0;
  int32_t sum = RING_STEP_FREE;
  if (!begins) {
    sum = ring_schedule_lane(schedule, RING_LANE_RECV, schedule_wrap(rank + 1, size));
    ring_schedule_step(
        schedule, (ring_step){.op = RING_STEP_REDUCE,
                              .source = RING_SPACE_INPUT,
                              .destination = ends ? RING_SPACE_OUTPUT : RING_SPACE_SCRATCH,
                              .flags = (uint8_t)((widen && place < size - 2 ? RING_STEP_WIDE : 0) |
                                                 (ends ? RING_STEP_LAST : 0)),
                              .after = RING_STEP_FREE,
                              .count = count});
  }
  if (ends) return RING_OK;
  ring_schedule_lane(schedule, RING_LANE_SEND, schedule_wrap(rank - 1, size));
  ring_schedule_step(schedule, (ring_step){.op = RING_STEP_SEND,
                                           .source = begins ? RING_SPACE_INPUT : RING_SPACE_SCRATCH,
                                           .after = sum,
                                           .count = count});
  schedule->scratch = begins ? 0 : count;
  return RING_OK;
}
