/* SPDX-License-Identifier: Apache-2.0
 *
 * Collectives of a communicator whose ranks are all in one shm group: no schedule and no links.
 *
 * A small payload is published in slots (small.h); a large one is read and written in the arena or
 * goes through bounce buffers (large.h). The README of this folder has the picture.
 *
 * Reductions combine in rank order, small and large: results are the same on all ranks, in all
 * runs, and wherever the buffers lie. One exception: if a rank's region has no space for a bounce
 * buffer, private buffers go over links, whose algorithms may combine in another order (the same on
 * all ranks and in all runs).
 */
#ifndef RING_SHM_COLLECTIVES_SHM_COLLECTIVE_H
#define RING_SHM_COLLECTIVES_SHM_COLLECTIVE_H

#include "engine/engine.h"
#include "shm/control_block.h"
#include "tuner/plan.h"

/* Whether a call can run in shared memory; the same on all ranks. */
bool ring_shm_collective_serves(const ring_shm *shm, const ring_outline *outline);

/* The way of a call that can run in shared memory, "slots" or "arena"; *cost is its estimated time
 * in picoseconds. */
const char *ring_shm_collective_way(const ring_outline *outline, uint64_t *cost);

/* Runs a call. RING_UNSUPPORTED, on all ranks: some buffers cannot be reached, and the call has to
 * go over links; no input has changed. */
ring_status ring_shm_collective_run(ring_shm *shm, const ring_task *task,
                                    const ring_outline *outline, const ring_call *signature,
                                    ring_error *error);

#endif
