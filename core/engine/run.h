/* SPDX-License-Identifier: Apache-2.0
 *
 * The data of a run, which is one execution of a schedule: the task, the engine that executes it,
 * and the progress of each lane. The header stands below the code that uses the data: frame_mover.c
 * moves a run, idle.c waits for it, and the detector explains what it waits for.
 */
#ifndef RING_ENGINE_RUN_H
#define RING_ENGINE_RUN_H

#include "base/timeline.h"
#include "base/wait.h"
#include "peers/wait_report.h"
#include "schedule/schedule.h"

#define RING_BURST_FRAMES 4 /* the most frames that one system call sends */
#define RING_ENGINE_RUNS 16 /* the latest runs, whose calls are known */

/* The progress of a lane. */
typedef struct ring_lane_progress {
  size_t step;        /* of the lane */
  uint64_t elements;  /* of that step, finished */
  uint64_t watermark; /* see schedule.h */
  bool active;        /* a frame is under way */
  uint64_t frame_elements;
  size_t frame_bytes, moved; /* header and payload */
  uint8_t *payload;
  uint8_t *staging; /* one frame, of a lane that reduces */
  uint32_t frame;   /* number of the frame that is sent */
  int sealed;       /* headers that are ready, from that frame's on */
  /* Headers are not cleared for a run, which would take as long as a short call over MPI. */
  uint8_t expected[RING_HEADER_BYTES];                   /* that the peer must send */
  uint8_t header[RING_HEADER_BYTES];                     /* that has come */
  uint8_t headers[RING_BURST_FRAMES][RING_HEADER_BYTES]; /* of sent frames, by number, cyclic */
} ring_lane_progress;

/* What this rank has reported in the current wait (detector/outbox.h). */
typedef struct ring_search {
  uint64_t begun;          /* when the wait began */
  uint64_t next;           /* how long the wait has lasted when the report is repeated */
  uint64_t sent;           /* when the report was sent */
  ring_wait_report report; /* the latest report */
} ring_search;

typedef struct ring_engine ring_engine;

/* The wait of a rank in a parent communicator while a child, which is split off, opens
 * (detector/split_wait.h). */
typedef struct ring_split_wait {
  ring_engine *engine; /* of the parent */
  ring_call call;      /* the split, in the parent */
  const int *ranks;    /* of the child, as the parent counts */
  int size;            /* of the child */
  ring_search search;
  ring_wait_report suspects; /* of this rank, as the parent counts */
  ring_error failure;        /* why the parent failed meanwhile */
} ring_split_wait;

struct ring_engine {
  ring_peers *peers;
  const struct ring_shm *shm;        /* the shm group of this rank; its arena is NULL without one */
  uint32_t runs;                     /* so far */
  ring_call calls[RING_ENGINE_RUNS]; /* of the latest runs, by number */
  ring_poll_set poll_set;
  ring_lane_progress *progress; /* by lane */
  size_t lanes;                 /* of the latest run; 0 until it is prepared */
  size_t progress_capacity;
  uint8_t *memory; /* scratch and staging */
  size_t memory_capacity;
  ring_search search;
  ring_split_wait *split_wait; /* while a child communicator opens, in the child; otherwise NULL */
  uint64_t wait_ns;
  ring_timeline *timeline; /* the communicator's, or NULL */
  int wary;                /* waits that sleep at once, without yielding first */
  int bell;                /* becomes readable when another thread ends the run's wait; -1: none */
};

/* A schedule bound to buffers and to a call. */
typedef struct ring_task {
  const ring_schedule *schedule;
  ring_call call;
  const void *input;
  size_t element_size; /* of input and output; 1 where there are no elements */
  void *output;
  uint64_t output_count;   /* elements that fit into the output */
  size_t wide_size;        /* of accumulators */
  uint8_t dtype, op;       /* of the elements; `call` may be the signature of a group */
  bool divide;             /* an average: the last reduction divides by the size */
  const char *description; /* of the array; NULL: none */
  ring_wait *wait;
} ring_task;

typedef struct ring_run {
  ring_engine *engine;
  const ring_task *task;
  uint64_t chunk; /* elements of a whole frame */
  size_t lanes_left;
  bool moved;      /* bytes have moved in this turn */
  bool progressed; /* bytes have moved since the last look at the deadline */
  bool timed;      /* the deadline has begun */
  bool reported;   /* other ranks have a wait report of this run */
  bool outside;    /* what its lanes wait for does not come over links (outside_wait.h) */
  ring_error *error;
} ring_run;

static inline const ring_lane *run_lane(const ring_run *run, size_t lane) {
  return &run->task->schedule->lanes[lane];
}

static inline const ring_step *run_step(const ring_run *run, size_t lane) {
  return &run->task->schedule->steps[run_lane(run, lane)->first + run->engine->progress[lane].step];
}

/* Whether a lane is reading from a rank now. */
static inline bool run_reads_from(const ring_run *run, int rank) {
  for (size_t lane = 0; lane < run->task->schedule->lane_count; lane++) {
    const ring_lane *shape = run_lane(run, lane);
    if (shape->kind == RING_LANE_RECV && shape->peer == rank && run->engine->progress[lane].active)
      return true;
  }
  return false;
}

/* The place for the header of a sent frame: `ahead` frames behind the current one. */
static inline uint8_t *run_header(ring_lane_progress *progress, int ahead) {
  return progress->headers[(progress->frame + (uint32_t)ahead) % RING_BURST_FRAMES];
}

/* The part of a frame that has not moved yet, as pieces for a link. */
static inline int run_pieces(ring_lane_progress *progress, uint8_t *header,
                             struct iovec pieces[2]) {
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
