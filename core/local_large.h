/* SPDX-License-Identifier: Apache-2.0
 *
 * Large collectives in shared memory: what their files have in common. A rank's slot says where its
 * input and its output lie: its post. What lies in the arena, and a rank's own buffers, are reached by
 * pointers; the rest by cross memory attach.
 */
#ifndef RING_LOCAL_LARGE_H
#define RING_LOCAL_LARGE_H

#include "local.h"

#define RING_LARGE_CHUNK ((size_t)128 * 1024) /* that a rank claims at a time */

/* A buffer of some rank, as this rank reaches it. */
typedef struct ring_large_side {
  uint8_t *pointer; /* NULL: by cross memory attach */
  uint64_t address;
  pid_t process;
} ring_large_side;

typedef struct ring_large_run {
  const ring_local_job *job;
  ring_large_side inputs[RING_SHARE_RANKS], outputs[RING_SHARE_RANKS];
  bool input_shared[RING_SHARE_RANKS], output_shared[RING_SHARE_RANKS];
  bool streams;  /* copies go past the caches */
  bool in_place; /* some rank's output replaces its input */
} ring_large_run;

/* Tells the others where this rank's buffers are. */
void ring_large_post(const ring_local_job *job, const void *input, const void *output);

/* Waits for the post of a rank, or of all. */
ring_status ring_large_meet(ring_large_run *run, int index);
ring_status ring_large_meet_all(ring_large_run *run);

/* This rank's own buffers, when it does not need the posts of all. */
void ring_large_own_sides(ring_large_run *run);

/* Whether all ranks can reach all inputs, and the outputs of the ranks [first, last). Judged from what
 * all of them know. */
bool ring_large_reaches(const ring_large_run *run, int first, int last);

/* Says that this rank is done, and may wait until all are. */
ring_status ring_large_finish(const ring_large_run *run, bool awaits_all);

/* Whether another rank has failed meanwhile: its buffers may be gone. */
bool ring_large_stops(const ring_large_run *run);

/* Whether what the ranks read and write, `bytes` each, is more than the caches hold. */
bool ring_large_streams(const ring_large_run *run, size_t bytes);

void ring_large_copy(uint8_t *to, const uint8_t *from, size_t bytes, bool streams);

/* Reads from a rank's input, and writes to a rank's output, straight to its place. */
ring_status ring_large_pull(const ring_large_run *run, int index, size_t at, uint8_t *to,
                            size_t bytes);
ring_status ring_large_push(const ring_large_run *run, int index, size_t at, const uint8_t *from,
                            size_t bytes);

/* ---- The collectives ---------------------------------------------------------------------- */

/* Allreduce, which posts what it works on by itself. */
ring_status ring_large_allreduce(ring_large_run *run, size_t bytes);

/* Reduce and reduce_scatter; `bytes` of the result. */
ring_status ring_large_reduce(ring_large_run *run, uint8_t collective, size_t bytes);

/* One rank has for, or gets from, each of the others. `all` of the input, or a part of it or of the
 * output. */
ring_status ring_large_between(ring_large_run *run, bool to_root, bool all, size_t bytes);

/* Every rank has something for every other one: its whole input, or a part. */
ring_status ring_large_exchange(ring_large_run *run, bool gathers);

#endif
