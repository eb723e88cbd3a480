/* SPDX-License-Identifier: Apache-2.0
 *
 * Algorithms as data. A schedule says what one rank does in a collective: lanes of steps, and no
 * I/O, no pointers, no dtype. A lane is an in-order queue: what goes to one peer, what comes from
 * one peer, or local copies. The steps of two lanes run independently of each other, except that a
 * step may follow the watermark of another lane.
 *
 * The watermark of a lane is the number of elements it has moved plus the number of steps it has
 * finished. Element i of a step with `after` and `mark` may move once that lane's watermark is at
 * least mark + i + 1, and the step may finish once it is at least mark + count + 1. So a step that
 * forwards what another receives follows it element by element, without further steps, and steps of
 * no elements (a barrier's) are ordered by the same rule. Only sends and copies wait for a lane:
 * receives take what comes, so that the failure of a peer is not held up behind what it sent before.
 */
#ifndef RING_SCHEDULE_H
#define RING_SCHEDULE_H

#include <stdbool.h>

#include "sparkring.h"

typedef enum ring_step_op {
  RING_STEP_SEND,   /* source → peer */
  RING_STEP_RECV,   /* peer → destination */
  RING_STEP_REDUCE, /* source op (what the peer sent) → destination */
  RING_STEP_COPY    /* source → destination */
} ring_step_op;

/* What an offset counts from. INPUT and OUTPUT are the caller's; SCRATCH holds accumulators. */
typedef enum ring_space { RING_SPACE_INPUT, RING_SPACE_OUTPUT, RING_SPACE_SCRATCH } ring_space;

enum {
  RING_STEP_WIDE = 1, /* REDUCE: the peer sends accumulators, not elements */
  RING_STEP_LAST = 2  /* REDUCE: nothing is added any more; an average is divided here */
};

enum { RING_STEP_FREE = -1 }; /* `after` of a step that waits for no lane */

typedef struct ring_step {
  uint8_t op, source, destination, flags;
  int32_t after;
  uint64_t mark;
  uint64_t from; /* in elements of the source space */
  uint64_t to;   /* in elements of the destination space */
  uint64_t count;
} ring_step;

typedef enum ring_lane_kind { RING_LANE_SEND, RING_LANE_RECV, RING_LANE_LOCAL } ring_lane_kind;

typedef struct ring_lane {
  ring_lane_kind kind;
  int peer; /* -1 for RING_LANE_LOCAL */
  size_t first, count;
} ring_lane;

typedef struct ring_schedule {
  ring_lane *lanes;
  ring_step *steps;
  size_t lane_count, step_count;
  size_t lane_room, step_room;
  uint64_t scratch; /* accumulators needed */
} ring_schedule;

/* A zeroed schedule is empty; building into one again reuses its memory. The builders return
 * RING_OK or RING_NO_MEMORY. */
void ring_schedule_free(ring_schedule *schedule);

/* Ring: size-1 steps reduce, size-1 steps gather. With `widen`, partial sums are accumulators. */
ring_status ring_schedule_allreduce(ring_schedule *schedule, int rank, int size, uint64_t count,
                                    bool widen);

/* Binomial tree; the subtree of the rank 2^k away (counted from root) has at most 2^k ranks. */
ring_status ring_schedule_broadcast(ring_schedule *schedule, int rank, int size, uint64_t count,
                                    int root);

/* Ring of size-1 steps. */
ring_status ring_schedule_allgather(ring_schedule *schedule, int rank, int size, uint64_t count);

/* Dissemination: round k tells the rank 2^k ahead. */
ring_status ring_schedule_barrier(ring_schedule *schedule, int rank, int size);

#endif
