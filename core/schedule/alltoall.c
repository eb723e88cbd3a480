/* SPDX-License-Identifier: Apache-2.0
 *
 * Allgather and alltoall by Bruck's algorithm (Bruck, Ho, Kipnis, Upfal and Weathersby, 1997),
 * whose rounds reach twice as far each, and alltoall pair by pair.
 */
#include "schedule/builder.h"

/* ---- Allgather ---------------------------------------------------------------------------- */

/* The number of blocks in a round: as many as this rank has, at most as many as the peer lacks. */
static int bruck_blocks(int size, int round) {
  int reach = 1 << round;
  return reach < size - reach ? reach : size - reach;
}

/* Moves the parts of `blocks` ranks from `first` on: two steps where they go past the last rank. */
static void bruck_move(ring_schedule *schedule, ring_parts parts, int size, ring_step step,
                       int first, int blocks) {
  int end = first + blocks < size ? first + blocks : size;
  uint64_t *offset = step.op == RING_STEP_SEND ? &step.from : &step.to;
  *offset = schedule_part_begin(parts, first);
  step.count = schedule_part_begin(parts, end) - *offset;
  ring_schedule_step(schedule, step);
  if (first + blocks > size) bruck_move(schedule, parts, size, step, 0, first + blocks - size);
}

/* In round k this rank sends the parts of 2^k ranks, from its own on, to the rank 2^k before it.
 * The local lane copies the own part and then counts the rounds that were received. */
ring_status ring_schedule_allgather_bruck(ring_schedule *schedule, int rank, int size,
                                          ring_parts parts) {
  int rounds = schedule_rounds(size);
  size_t lanes = 2 * (size_t)rounds + 1;
  ring_status status = ring_schedule_reserve(schedule, lanes, 3 * lanes);
  if (status != RING_OK) return status;
  for (int k = 0; k < rounds; k++) {
    int peer = schedule_wrap(rank + (1 << k), size);
    ring_schedule_lane(schedule, RING_LANE_RECV, peer);
    bruck_move(schedule, parts, size,
               (ring_step){
                   .op = RING_STEP_RECV, .destination = RING_SPACE_OUTPUT, .after = RING_STEP_FREE},
               peer, bruck_blocks(size, k));
  }
  int32_t local = (int32_t)schedule->lane_count;
  uint64_t own = schedule_part_count(parts, rank);
  ring_schedule_copy_lane(schedule, 0, schedule_part_begin(parts, rank), own);
  for (int32_t k = 0; k < rounds; k++) {
    const ring_lane *lane = &schedule->lanes[k];
    uint64_t all = lane->count;
    for (size_t i = 0; i < lane->count; i++) all += schedule->steps[lane->first + i].count;
    ring_schedule_fence(schedule, k, all);
  }
  for (int k = 0; k < rounds; k++) {
    ring_schedule_lane(schedule, RING_LANE_SEND, schedule_wrap(rank - (1 << k), size));
    if (k == 0) { /* the own part, which need not wait for its copy */
      ring_schedule_step(schedule, (ring_step){.op = RING_STEP_SEND,
                                               .source = RING_SPACE_INPUT,
                                               .after = RING_STEP_FREE,
                                               .count = own});
      continue;
    }
    bruck_move(schedule, parts, size,
               (ring_step){.op = RING_STEP_SEND,
                           .source = RING_SPACE_OUTPUT,
                           .flags = RING_STEP_WHOLE,
                           .after = local,
                           .mark = own + 1 + (uint64_t)k},
               rank, bruck_blocks(size, k));
  }
  return RING_OK;
}

/* ---- Alltoall ----------------------------------------------------------------------------- */

ring_status ring_schedule_alltoall_pairwise(ring_schedule *schedule, int rank, int size,
                                            ring_parts input, ring_parts output) {
  size_t lanes = 2 * (size_t)size - 1;
  ring_status status = ring_schedule_reserve(schedule, lanes, lanes);
  if (status != RING_OK) return status;
  ring_schedule_copy_lane(schedule, schedule_part_begin(input, rank),
                          schedule_part_begin(output, rank), schedule_part_count(input, rank));
  for (int away = 1; away < size; away++) {
    int from = schedule_wrap(rank - away, size), to = schedule_wrap(rank + away, size);
    ring_schedule_lane(schedule, RING_LANE_RECV, from);
    ring_schedule_step(schedule, (ring_step){.op = RING_STEP_RECV,
                                             .destination = RING_SPACE_OUTPUT,
                                             .after = RING_STEP_FREE,
                                             .to = schedule_part_begin(output, from),
                                             .count = schedule_part_count(output, from)});
    ring_schedule_lane(schedule, RING_LANE_SEND, to);
    ring_schedule_step(schedule, (ring_step){.op = RING_STEP_SEND,
                                             .source = RING_SPACE_INPUT,
                                             .after = RING_STEP_FREE,
                                             .from = schedule_part_begin(input, to),
                                             .count = schedule_part_count(input, to)});
  }
  return RING_OK;
}

/* Block j is the one with j ranks to go. Round k moves the blocks whose bit k is set: packs them
 * into scratch, sends them, and receives others behind them. index(j, k) is the place among
 * them. */
typedef struct bruck {
  ring_schedule *schedule;
  int rank, size, rounds;
  uint64_t count;
} bruck;

static uint64_t bruck_index(int block, int round) {
  int low = block & ((1 << round) - 1), high = block >> (round + 1);
  return ((uint64_t)high << round) + (uint64_t)low;
}

/* Blocks below `size` whose bit `round` is set. */
static uint64_t bruck_members(int size, int round) {
  uint64_t period = UINT64_C(2) << round, half = UINT64_C(1) << round;
  uint64_t rest = (uint64_t)size % period;
  return (uint64_t)size / period * half + (rest > half ? rest - half : 0);
}

/* Scratch of a round: blocks to send, and behind them the received ones. */
static uint64_t bruck_packed(const bruck *b, int round) {
  uint64_t begin = 0;
  for (int k = 0; k < round; k++) begin += 2 * bruck_members(b->size, k) * b->count;
  return begin;
}

static uint64_t bruck_received(const bruck *b, int round) {
  return bruck_packed(b, round) + bruck_members(b->size, round) * b->count;
}

/* Copies a block from its place before round `round`: the input, or where it was last received. */
static void bruck_take(const bruck *b, int block, int round, ring_space space, uint64_t to) {
  int last = round - 1;
  while (last >= 0 && (block >> last & 1) == 0) last--;
  ring_step step = {.op = RING_STEP_COPY,
                    .source = RING_SPACE_INPUT,
                    .destination = (uint8_t)space,
                    .flags = RING_STEP_WHOLE,
                    .after = RING_STEP_FREE,
                    .from = (uint64_t)schedule_wrap(b->rank + block, b->size) * b->count,
                    .to = to,
                    .count = b->count};
  if (last >= 0) {
    step.source = RING_SPACE_SCRATCH;
    step.from = bruck_received(b, last) + bruck_index(block, last) * b->count;
    step.after = last;
    step.mark = bruck_members(b->size, last) * b->count + 1;
  }
  ring_schedule_step(b->schedule, step);
}

/* Packs what each round sends, then unpacks. */
static void bruck_copies(const bruck *b) {
  for (int k = 0; k < b->rounds; k++)
    for (int block = 0; block < b->size; block++)
      if (block >> k & 1)
        bruck_take(b, block, k, RING_SPACE_SCRATCH,
                   bruck_packed(b, k) + bruck_index(block, k) * b->count);
  for (int block = 0; block < b->size; block++)
    bruck_take(b, block, b->rounds, RING_SPACE_OUTPUT,
               (uint64_t)schedule_wrap(b->rank - block, b->size) * b->count);
}

static ring_status bruck_reserve(const bruck *b) {
  size_t copies = (size_t)b->size * (size_t)(b->rounds / 2 + 2);
  return ring_schedule_reserve(b->schedule, 2 * (size_t)b->rounds + 1,
                               copies + 2 * (size_t)b->rounds);
}

ring_status ring_schedule_alltoall_bruck(ring_schedule *schedule, int rank, int size,
                                         uint64_t count) {
  bruck b = {schedule, rank, size, schedule_rounds(size), count};
  ring_status status = bruck_reserve(&b);
  if (status != RING_OK) return status;
  for (int k = 0; k < b.rounds; k++) {
    ring_schedule_lane(schedule, RING_LANE_RECV, schedule_wrap(rank - (1 << k), size));
    ring_schedule_step(schedule, (ring_step){.op = RING_STEP_RECV,
                                             .destination = RING_SPACE_SCRATCH,
                                             .after = RING_STEP_FREE,
                                             .to = bruck_received(&b, k),
                                             .count = bruck_members(size, k) * count});
  }
  int32_t local = ring_schedule_lane(schedule, RING_LANE_LOCAL, -1);
  bruck_copies(&b);
  uint64_t mark = 0;
  for (int k = 0; k < b.rounds; k++) {
    uint64_t members = bruck_members(size, k);
    mark += members * (count + 1);
    ring_schedule_lane(schedule, RING_LANE_SEND, schedule_wrap(rank + (1 << k), size));
    ring_schedule_step(schedule, (ring_step){.op = RING_STEP_SEND,
                                             .source = RING_SPACE_SCRATCH,
                                             .flags = RING_STEP_WHOLE,
                                             .after = local,
                                             .mark = mark,
                                             .from = bruck_packed(&b, k),
                                             .count = members * count});
  }
  schedule->scratch = bruck_packed(&b, b.rounds);
  return RING_OK;
}
