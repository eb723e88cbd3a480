/* SPDX-License-Identifier: Apache-2.0
 *
 * Gather and scatter, by trees and directly. In the trees places are counted from the root, as in
 * tree.c. An inner rank holds the parts of its subtree in scratch, in the order of places.
 *
 * The data between place p and its parent is cut alike on both links that it crosses: p's own part,
 * then the block of each of its children. A block whose ranks go from size-1 on to 0 is two steps,
 * because it lies in two pieces in the root's buffer.
 */
#include "schedule/builder.h"

typedef struct gather {
  ring_schedule *schedule;
  ring_parts parts;
  int place, size, root;
} gather;

static int gather_rank(const gather *g, int place) {
  return schedule_wrap(place + g->root, g->size);
}

/* Elements of the places from `first` to before `end`, none of which is beyond size. */
static uint64_t gather_length(const gather *g, int first, int end) {
  int wrap = g->size - g->root; /* the place of rank 0 */
  if (first >= end) return 0;
  if (first < wrap && end > wrap)
    return gather_length(g, first, wrap) + gather_length(g, wrap, end);
  int rank = gather_rank(g, first);
  return schedule_part_begin(g->parts, rank + (end - first)) - schedule_part_begin(g->parts, rank);
}

static int gather_reach(const gather *g) {
  int reach = 1;
  while (reach < g->size && (g->place & reach) == 0) reach <<= 1;
  return reach;
}

/* Adds the moves of the places from `first` to before `end` to the lane, in the direction of
 * `shape`. The buffer of the root holds parts by rank, scratch holds them by place. */
static void gather_piece(const gather *g, ring_step shape, int first, int end) {
  int wrap = g->size - g->root;
  if (end > g->size) end = g->size;
  if (first < wrap && end > wrap) {
    gather_piece(g, shape, first, wrap);
    shape.mark += gather_length(g, first, wrap);
    gather_piece(g, shape, wrap, end);
    return;
  }
  bool root = g->place == 0;
  uint64_t at = root ? schedule_part_begin(g->parts, gather_rank(g, first))
                     : gather_length(g, g->place, first);
  uint64_t *offset = shape.op == RING_STEP_SEND ? &shape.from : &shape.to;
  *offset += at;
  shape.count = gather_length(g, first, end);
  ring_schedule_step(g->schedule, shape);
}

/* Adds all pieces that cross the link between place `below` and its parent, on either side.
 * `own` moves the own part of `below`, `block` the blocks of its children; marks continue from
 * that of `own`. Returns the number of steps. */
static size_t gather_pieces(const gather *g, ring_step own, ring_step block, int below, int reach) {
  size_t before = g->schedule->step_count;
  gather_piece(g, own, below, below + 1);
  for (int distance = 1; distance < reach; distance <<= 1)
    if (below + distance < g->size) {
      block.mark = own.mark + gather_length(g, below, below + distance);
      gather_piece(g, block, below + distance, below + 2 * distance);
    }
  return g->schedule->step_count - before;
}

static ring_status gather_reserve(const gather *g) {
  size_t rounds = (size_t)schedule_rounds(g->size);
  return ring_schedule_reserve(g->schedule, rounds + 3, (rounds + 2) * (rounds + 4));
}

static void gather_keep_own(const gather *g, bool scatters) {
  int rank = gather_rank(g, g->place);
  uint64_t begin = schedule_part_begin(g->parts, rank);
  ring_schedule_copy_lane(g->schedule, scatters ? begin : 0, scatters ? 0 : begin,
                          schedule_part_count(g->parts, rank));
}

/* ---- Gather ------------------------------------------------------------------------------- */

/* Blocks for the parent follow the lanes that receive them. The steps of a lane arrive in the
 * order of places, so a mark that counts its steps is never too low. */
static void gather_pass_on(const gather *g, int reach, const size_t *steps) {
  int parent = gather_rank(g, g->place - reach);
  ring_step own = {.op = RING_STEP_SEND, .source = RING_SPACE_INPUT, .after = RING_STEP_FREE};
  ring_step block = {.op = RING_STEP_SEND, .source = RING_SPACE_SCRATCH};
  ring_schedule_lane(g->schedule, RING_LANE_SEND, parent);
  own.count = schedule_part_count(g->parts, gather_rank(g, g->place));
  ring_schedule_step(g->schedule, own);
  for (int distance = 1; distance < reach && g->place + distance < g->size; distance <<= 1) {
    block.mark = steps[block.after] - 1;
    gather_piece(g, block, g->place + distance, g->place + 2 * distance);
    block.after++;
  }
}

ring_status ring_schedule_gather_tree(ring_schedule *schedule, int rank, int size, ring_parts parts,
                                      int root) {
  gather g = {schedule, parts, schedule_wrap(rank - root, size), size, root};
  int reach = gather_reach(&g);
  size_t steps[32];
  ring_status status = gather_reserve(&g);
  if (status != RING_OK) return status;
  ring_step step = {.op = RING_STEP_RECV,
                    .destination = g.place == 0 ? RING_SPACE_OUTPUT : RING_SPACE_SCRATCH,
                    .after = RING_STEP_FREE};
  for (int distance = 1; distance < reach && g.place + distance < size; distance <<= 1) {
    int32_t lane =
        ring_schedule_lane(schedule, RING_LANE_RECV, gather_rank(&g, g.place + distance));
    steps[lane] = gather_pieces(&g, step, step, g.place + distance, distance);
  }
  if (g.place == 0) {
    gather_keep_own(&g, false);
    return RING_OK;
  }
  gather_pass_on(&g, reach, steps);
  int end = g.place + reach < size ? g.place + reach : size;
  schedule->scratch = reach > 1 ? gather_length(&g, g.place, end) : 0;
  return RING_OK;
}

ring_status ring_schedule_gather_direct(ring_schedule *schedule, int rank, int size,
                                        ring_parts parts, int root) {
  gather g = {schedule, parts, schedule_wrap(rank - root, size), size, root};
  if (rank != root) return ring_schedule_send(schedule, root, schedule_part_count(parts, rank));
  ring_status status = ring_schedule_reserve(schedule, (size_t)size, (size_t)size);
  if (status != RING_OK) return status;
  gather_keep_own(&g, false);
  ring_step step = {
      .op = RING_STEP_RECV, .destination = RING_SPACE_OUTPUT, .after = RING_STEP_FREE};
  for (int place = 1; place < size; place++) {
    ring_schedule_lane(schedule, RING_LANE_RECV, gather_rank(&g, place));
    gather_piece(&g, step, place, place + 1);
  }
  return RING_OK;
}

/* ---- Scatter ------------------------------------------------------------------------------ */

/* Receives from the parent: the own part to the output, the blocks of the children to scratch.
 * Returns the lane. */
static int32_t scatter_receive(const gather *g, int reach) {
  int32_t lane = ring_schedule_lane(g->schedule, RING_LANE_RECV, gather_rank(g, g->place - reach));
  ring_step block = {
      .op = RING_STEP_RECV, .destination = RING_SPACE_SCRATCH, .after = RING_STEP_FREE};
  ring_step own = block;
  own.destination = RING_SPACE_OUTPUT;
  gather_pieces(g, own, block, g->place, reach);
  return lane;
}

/* The mark that the block of a child waits for: all elements before it, and all steps so far.
 * The steps of a lane arrive in the order of places, so a mark that counts them is never too
 * low. */
static uint64_t scatter_mark(const gather *g, const ring_lane *received, int distance) {
  const ring_step *step = &g->schedule->steps[received->first];
  int end = g->place + 2 * distance < g->size ? g->place + 2 * distance : g->size;
  uint64_t length = gather_length(g, g->place, end), elements = 0, steps = 0;
  while (steps < received->count && (elements < length || steps == 0))
    elements += step[steps++].count;
  return gather_length(g, g->place, g->place + distance) + steps - 1;
}

ring_status ring_schedule_scatter_tree(ring_schedule *schedule, int rank, int size,
                                       ring_parts parts, int root) {
  gather g = {schedule, parts, schedule_wrap(rank - root, size), size, root};
  int reach = gather_reach(&g);
  int32_t received = RING_STEP_FREE;
  ring_status status = gather_reserve(&g);
  if (status != RING_OK) return status;
  if (g.place == 0)
    gather_keep_own(&g, true);
  else
    received = scatter_receive(&g, reach);
  for (int distance = reach >> 1; distance > 0; distance >>= 1) {
    int below = g.place + distance;
    if (below >= size) continue;
    ring_step step = {.op = RING_STEP_SEND,
                      .source = g.place == 0 ? RING_SPACE_INPUT : RING_SPACE_SCRATCH,
                      .after = received};
    if (received >= 0) step.mark = scatter_mark(&g, &schedule->lanes[received], distance);
    ring_schedule_lane(schedule, RING_LANE_SEND, gather_rank(&g, below));
    gather_pieces(&g, step, step, below, distance);
  }
  int end = g.place + reach < size ? g.place + reach : size;
  schedule->scratch = g.place > 0 && reach > 1 ? gather_length(&g, g.place, end) : 0;
  return RING_OK;
}

ring_status ring_schedule_scatter_direct(ring_schedule *schedule, int rank, int size,
                                         ring_parts parts, int root) {
  gather g = {schedule, parts, schedule_wrap(rank - root, size), size, root};
  if (rank != root) return ring_schedule_recv(schedule, root, schedule_part_count(parts, rank));
  ring_status status = ring_schedule_reserve(schedule, (size_t)size, (size_t)size);
  if (status != RING_OK) return status;
  gather_keep_own(&g, true);
  ring_step step = {.op = RING_STEP_SEND, .source = RING_SPACE_INPUT, .after = RING_STEP_FREE};
  for (int place = 1; place < size; place++) {
    ring_schedule_lane(schedule, RING_LANE_SEND, gather_rank(&g, place));
    gather_piece(&g, step, place, place + 1);
  }
  return RING_OK;
}
