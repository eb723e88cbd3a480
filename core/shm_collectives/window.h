/* SPDX-License-Identifier: Apache-2.0
 *
 * The window of a large collective: the buffers of all ranks, as this rank reaches them (MPI uses
 * the word in the same sense). Each rank publishes in its slot a post: the offsets of its input,
 * its output and its bounce buffer in the arena. Buffers in the arena are read and written in place
 * (zero_copy.h, large_reduce.h); the post marks other buffers, and their bytes go through bounce
 * buffers (bounce.h).
 *
 * An offset is checked before use: its buffer has to lie in the arena as a whole, and be aligned.
 */
#ifndef RING_SHM_COLLECTIVES_WINDOW_H
#define RING_SHM_COLLECTIVES_WINDOW_H

#include "shm_collectives/job.h"

#define RING_WINDOW_CHUNK ((size_t)128 * 1024) /* that a rank claims at a time */

typedef struct ring_window {
  const ring_shm_job *job;
  uint8_t *inputs[RING_SHM_RANKS], *outputs[RING_SHM_RANKS]; /* NULL: this rank cannot reach it */
  uint8_t *bounces[RING_SHM_RANKS]; /* NULL: that rank's region has no space for a bounce buffer */
  bool input_shared[RING_SHM_RANKS], output_shared[RING_SHM_RANKS]; /* it lies in the arena */
  bool streams;                                                     /* copies bypass the caches */
  bool in_place; /* some rank's output replaces its input */
} ring_window;

/* Ranks [first, last). */
typedef struct ring_rank_range {
  int first, last;
} ring_rank_range;

/* The bytes that one rank has for another rank in a collective that only copies. */
typedef struct ring_window_transfer {
  size_t in_at, out_at, bytes; /* offset in the sender's input and in the receiver's output */
  bool same;                   /* all receivers get the same bytes */
} ring_window_transfer;

ring_window_transfer ring_transfer_of(const ring_shm_job *job, int from, int to);

/* The ranks whose outputs get the result of an allreduce or reduce. */
ring_rank_range ring_shm_receivers(const ring_shm_job *job);

/* ---- Posts -------------------------------------------------------------------------------- */

/* This rank's bounce buffer, allocated when first needed; NULL if its region has no space. */
uint8_t *ring_window_bounce(ring_shm *shm);

/* Publishes this rank's buffers. */
void ring_window_post(const ring_shm_job *job, const uint8_t *bounce);

/* Waits for the post of a rank, or of all ranks, and enters it. */
ring_status ring_window_await(ring_window *window, int index);
ring_status ring_window_await_all(ring_window *window);

/* Enters this rank's own buffers, for a rank that does not need its own post. */
void ring_window_enter_own(ring_window *window);

/* Whether all ranks have a bounce buffer. Valid after ring_window_await_all. */
bool ring_window_has_bounces(const ring_window *window);

/* Publishes that this rank is done with the call; with `awaits_all`, waits until all ranks are. */
ring_status ring_window_finish(const ring_shm_call *call, bool awaits_all);

/* ---- Work --------------------------------------------------------------------------------- */

/* Claims the next chunk and returns its offset. A rank claims no more chunks than there are, since
 * any rank may have overwritten the counter. */
static inline size_t ring_window_claim(_Atomic uint64_t *next) {
  uint64_t at = atomic_fetch_add_explicit(next, RING_WINDOW_CHUNK, memory_order_relaxed);
  return (size_t)(at - at % RING_WINDOW_CHUNK);
}

/* Whether another rank has failed meanwhile: its buffers may be gone. */
bool ring_window_failed(const ring_window *window);

/* Whether the ranks read and write more than the caches hold, at `bytes` each. */
bool ring_window_streams(const ring_window *window, size_t bytes);

void ring_window_copy(uint8_t *to, const uint8_t *from, size_t bytes, bool streams);

/* Copies many bytes, and checks for failures between the pieces. */
ring_status ring_window_move(const ring_window *window, uint8_t *to, const uint8_t *from,
                             size_t bytes);

/* Folds `sources`, one for each rank and in rank order, into `number` results, at least 1. A result
 * may be a source. */
void ring_window_fold(const ring_window *window, uint8_t *const *sources, uint8_t *const *results,
                      int number, size_t bytes);

#endif
