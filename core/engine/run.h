/* SPDX-License-Identifier: Apache-2.0
 *
 * A run: one execution of a schedule, as the engine that moves it (engine.c) and the one that says
 * what went wrong with it (failure.c) see it.
 */
#ifndef RING_RUN_H
#define RING_RUN_H

#include "engine/engine.h"

typedef struct ring_run {
  ring_engine *engine;
  const ring_task *task;
  uint64_t chunk; /* elements of a whole frame */
  size_t lanes_left;
  bool moved;      /* anything, since it was last cleared */
  bool progressed; /* the same, since the deadline was last looked at */
  bool timed;      /* the deadline has begun */
  bool said;       /* to other ranks, for whom it waits */
  ring_error *error;
} ring_run;

/* Gives every lane one turn: the last one first, because sends, which others wait for, follow what is
 * received (schedule.h). */
ring_status ring_engine_turn(ring_run *run);

/* Nothing moved: tries on for a moment, then sleeps until something may move (idle.c). */
ring_status ring_engine_wait(ring_run *run);

/* The deadline is for silence: as long as bytes move, it moves, too. That of open is for all of it. */
ring_status ring_engine_check(ring_run *run);

static inline const ring_lane *run_lane(const ring_run *run, size_t lane) {
  return &run->task->schedule->lanes[lane];
}

/* Whether a lane is reading from this rank now. */
static inline bool run_listens(const ring_run *run, int rank) {
  for (size_t lane = 0; lane < run->task->schedule->lane_count; lane++) {
    const ring_lane *shape = run_lane(run, lane);
    if (shape->kind == RING_LANE_RECV && shape->peer == rank && run->engine->progress[lane].active)
      return true;
  }
  return false;
}

/* Where the header of the frame `ahead` of the one that is sent is kept. */
static inline uint8_t *run_header(ring_progress *progress, int ahead) {
  return progress->headers[(progress->frame + (uint32_t)ahead) % RING_BURST_FRAMES];
}

/* The part of a frame that has not moved yet, as pieces for a link. */
static inline int run_pieces(ring_progress *progress, uint8_t *header, struct iovec pieces[2]) {
  int count = 0;
  size_t moved = progress->moved;
  if (moved < RING_HEADER_BYTES) {
    pieces[count++] = (struct iovec){header + moved, RING_HEADER_BYTES - moved};
    moved = RING_HEADER_BYTES;
  }
  if (progress->frame_bytes > moved)
    pieces[count++] = (struct iovec){progress->payload + (moved - RING_HEADER_BYTES),
                                     progress->frame_bytes - moved};
  return count;
}

#endif
