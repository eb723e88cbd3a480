/* SPDX-License-Identifier: Apache-2.0
 *
 * The engine executes schedules over links, frame by frame, driven by the calling thread.
 *
 * A step travels as frames of at most RING_CHUNK_BYTES of elements; a step without elements is one
 * empty frame. Both ends cut steps alike, so a receiver knows each header before it comes and reads
 * header and payload in one call, straight to their place. A frame moves when the watermark it
 * follows has passed its last element.
 *
 * While nothing moves the engine spins for a moment, then sleeps on every link it has: a rank that
 * fails tells all its links (failure.h), so whoever waits for anybody hears of it. Links that are
 * not open yet are opened meanwhile.
 */
#ifndef RING_ENGINE_H
#define RING_ENGINE_H

#include "base/wait.h"
#include "peers/wait_report.h"
#include "schedule/schedule.h"

#define RING_BURST_FRAMES 4 /* that leave in one system call, at most */

/* Adds to a counter that another thread may be reading. Only one thread at a time adds. */
static inline void engine_counter_add(uint64_t *counter, uint64_t more) {
  __atomic_store_n(counter, *counter + more, __ATOMIC_RELAXED);
}

/* What a lane is doing. */
typedef struct ring_progress {
  size_t step;        /* of the lane */
  uint64_t elements;  /* of that step, done */
  uint64_t watermark; /* see schedule.h */
  bool active;        /* a frame is under way */
  uint64_t frame_elements;
  size_t frame_bytes, moved; /* header and payload */
  uint8_t *payload;
  uint8_t expected[RING_HEADER_BYTES]; /* of what has to come */
  uint8_t header[RING_HEADER_BYTES];   /* what came */
  uint32_t frame;                      /* that is sent, counted */
  int sealed;                          /* headers that are ready, from that of this frame on */
  uint8_t headers[RING_BURST_FRAMES][RING_HEADER_BYTES]; /* by frame, in turn */
  uint8_t *staging;                                      /* of a lane that reduces: one frame */
} ring_progress;

/* What a rank that waits has told the others (stall.h). */
typedef struct ring_search {
  uint64_t begun;        /* when the wait did that this is about */
  uint64_t next;         /* when it has lasted so long, they are told again */
  uint64_t sent;         /* when they were */
  ring_wait_report said; /* what */
} ring_search;

struct ring_split_wait; /* split wait.h */

#define RING_ENGINE_RUNS 16 /* the last ones, whose calls are known */

typedef struct ring_engine {
  ring_peers *peers;
  const struct ring_shm *shm;        /* memory with the ranks of this host, if there is any */
  uint32_t runs;                     /* so far */
  ring_call calls[RING_ENGINE_RUNS]; /* of the last ones, by number */
  ring_poll_set poll_set;
  ring_progress *progress; /* by lane */
  size_t lanes;            /* of the last run, 0 until it was prepared */
  size_t progress_capacity;
  uint8_t *memory; /* scratch and staging */
  size_t memory_capacity;
  ring_search search;
  struct ring_split_wait *split_wait; /* while it opens a child of another communicator, or NULL */
  uint64_t wait_ns;
  int wary; /* so many waits do not yield */
  int bell; /* turns readable when another thread ends the run's wait; -1: none */
} ring_engine;

/* One execution: a schedule bound to buffers and to a call. */
typedef struct ring_task {
  const ring_schedule *schedule;
  ring_call call;
  const void *input;
  size_t element_size; /* of input and output; 1 where there are no elements */
  void *output;
  uint64_t output_count;   /* elements that it has room for */
  size_t wide_size;        /* of accumulators */
  bool divide;             /* an average: the last reduction divides by the size */
  const char *description; /* of the array; NULL: none */
  ring_wait *wait;
} ring_task;

/* Runs a task to its end. On failure *error explains; the caller then tells the others
 * (failure.h). */
ring_status ring_engine_run(ring_engine *engine, const ring_task *task, ring_error *error);

void ring_engine_fini(ring_engine *engine);

#endif
