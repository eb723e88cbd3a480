/* SPDX-License-Identifier: Apache-2.0
 *
 * Large collectives in shared memory: what their files have in common. A rank's slot says where its
 * input and its output lie: its post. What lies in the arena the others read and write directly
 * (zero_copy.c, large_reduce.c); what does not goes through bounce buffers (bounce.c).
 */
#ifndef RING_LARGE_H
#define RING_LARGE_H

#include "shm_collectives/shm_collective.h"

#define RING_LARGE_CHUNK ((size_t)128 * 1024) /* that a rank claims at a time */

/* The buffers of all ranks, as this one reaches them: NULL where it does not. */
typedef struct ring_large_run {
  const ring_shm_job *job;
  uint8_t *inputs[RING_SHM_RANKS], *outputs[RING_SHM_RANKS];
  uint8_t *bounces[RING_SHM_RANKS]; /* NULL: the arena had no room for one */
  bool input_shared[RING_SHM_RANKS], output_shared[RING_SHM_RANKS];
  bool streams;  /* copies go past the caches */
  bool in_place; /* some rank's output replaces its input */
} ring_large_run;

/* Ranks [first, last). */
typedef struct ring_large_range {
  int first, last;
} ring_large_range;

/* What one rank has for another one in a collective that only copies: where it lies in the input of
 * the one, where it goes in the output of the other. */
typedef struct ring_large_transfer {
  size_t in_at, out_at, bytes;
  bool same; /* all others get the same */
} ring_large_transfer;

ring_large_transfer ring_large_transfer_of(const ring_shm_job *job, int from, int to);

/* Waits for the post of a rank, or of all. */
ring_status ring_large_meet(ring_large_run *run, int index);
ring_status ring_large_meet_all(ring_large_run *run);

/* This rank's own buffers, when it does not need the posts of all. */
void ring_large_own_sides(ring_large_run *run);

/* Whether all ranks have a bounce buffer, once all have met. */
bool ring_large_have_bounces(const ring_large_run *run);

/* Says that this rank is done with a call, and may wait until all are. */
ring_status ring_large_finish(const ring_shm_call *call, bool awaits_all);

/* Where the next chunk begins that nobody has claimed. A rank claims no more of them than there are: the
 * count may have been overwritten. */
static inline size_t ring_large_claim(_Atomic uint64_t *next) {
  uint64_t at = atomic_fetch_add_explicit(next, RING_LARGE_CHUNK, memory_order_relaxed);
  return (size_t)(at - at % RING_LARGE_CHUNK);
}

/* Whether another rank has failed meanwhile: its buffers may be gone. */
bool ring_large_stops(const ring_large_run *run);

/* Whether what the ranks read and write, `bytes` each, is more than the caches hold. */
bool ring_large_streams(const ring_large_run *run, size_t bytes);

void ring_large_copy(uint8_t *to, const uint8_t *from, size_t bytes, bool streams);

/* Copies a long piece, and looks for failures on the way. */
ring_status ring_large_move(const ring_large_run *run, uint8_t *to, const uint8_t *from,
                            size_t bytes);

/* Folds what lies at `sources`, in rank order, into `number` results. A result may be a source. */
void ring_large_fold(const ring_large_run *run, uint8_t *const *sources, uint8_t *const *results,
                     int number, size_t bytes);

/* The ranks whose outputs get the result of an allreduce or reduce. */
ring_large_range ring_large_receivers(const ring_shm_job *job);

/* ---- The collectives ---------------------------------------------------------------------- */

/* Allreduce, reduce and reduce_scatter; `bytes` of the result. */
ring_status ring_large_reduce(ring_large_run *run, size_t bytes);

/* One rank has for, or gets from, each of the others. */
ring_status ring_large_between(ring_large_run *run, bool to_root);

/* Every rank has something for every other one. */
ring_status ring_large_exchange(ring_large_run *run);

/* ---- Through bounce buffers ----------------------------------------------------------------------- */

/* Puts the first window of the input of an allreduce or reduce where the others will look for it, if
 * they do not reach the input. Before the post. */
void ring_bounce_prepare(const ring_shm_job *job, uint8_t *bounce);

ring_status ring_bounce_reduce(ring_large_run *run, size_t bytes);
ring_status ring_bounce_reduce_scatter(const ring_large_run *run, size_t bytes);

/* All collectives that only copy. */
ring_status ring_bounce_copy(const ring_large_run *run);

#endif
