/* SPDX-License-Identifier: Apache-2.0
 *
 * Collectives in shared memory, for communicators whose ranks all share: no schedule and no links.
 *
 * Small (small.c): what each rank has to say fits its slot; every rank reads the slots of the
 * others and combines them in rank order by itself. Large (large.c): ranks post where their
 * buffers are. Those in the arena they read and write directly: reductions are cut into chunks that
 * the ranks claim; whoever has a chunk reads it from all inputs, in rank order, and writes it to all
 * outputs. Nothing is copied on the way, and there is one synchronisation before and one after. What
 * lies elsewhere goes through bounce buffers in the arena, window by window (bounce.c).
 *
 * Reductions combine in rank order, small and large, so results are the same on all ranks, from run
 * to run, and wherever the buffers lie. (Where a rank's part of the arena is full, so that it has no
 * bounce buffer, private buffers go over links, whose algorithms may add up in another order: the same on all
 * ranks and in all runs.)
 */
#ifndef RING_SHM_COLLECTIVE_H
#define RING_SHM_COLLECTIVE_H

#include "engine/engine.h"
#include "shm/shm_group.h"
#include "tuner/plan.h"

/* Whether a call can run in shared memory; the same answer on all ranks. */
bool ring_shm_collective_serves(const ring_shm *shm, const ring_outline *outline);

/* Which way a call that it serves goes ("slots" or "arena"), and about how long that takes, in
 * picoseconds. */
const char *ring_shm_collective_way(const ring_outline *outline, uint64_t *cost);

/* Runs it. RING_UNSUPPORTED, on all ranks: their buffers cannot be reached, and the call has to go
 * over links; no input has changed. */
ring_status ring_shm_collective_run(ring_shm *shm, const ring_task *task,
                                    const ring_outline *outline, const ring_call *signature,
                                    ring_error *error);

/* ---- Between its files -------------------------------------------------------------------- */

/* A call as both ways see it. */
typedef struct ring_shm_job {
  ring_shm_call call;
  const ring_task *task;
  const ring_outline *outline;
  int rank, size, root;
  bool brief; /* slots hold all that has to be said */
} ring_shm_job;

/* The bytes of a part, and where it begins. */
static inline size_t ring_shm_part(const ring_shm_job *job, int rank, size_t *at) {
  const ring_parts *parts = &job->outline->parts;
  size_t width = job->task->element_size;
  if (parts->offsets == NULL) {
    size_t bytes = (size_t)job->outline->call.count * width;
    *at = (size_t)rank * bytes;
    return bytes;
  }
  *at = (size_t)parts->offsets[rank] * width;
  return (size_t)(parts->offsets[rank + 1] - parts->offsets[rank]) * width;
}

/* destination = sources[0] op sources[1] op ..., on `count` elements. */
void ring_shm_fold(const ring_shm_job *job, const void *const *sources, void *destination,
                   size_t count);

ring_status ring_shm_small(const ring_shm_job *job);
ring_status ring_shm_large(const ring_shm_job *job);

#endif
