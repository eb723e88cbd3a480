/* SPDX-License-Identifier: Apache-2.0
 *
 * A wait outside of the links: this rank waits, with the other ranks, for something that does not move over links,
 * such as a call of MPI. The engine's detector works meanwhile. It finds a rank that has died, has failed, is in
 * another call or does not come, by the links and the wait reports on them, and knows deadline and interrupt hook.
 *
 * A lane to each linked rank stands for the wait: any of them may be the one that is missing. A linked rank that
 * waits, too, reports the ranks that it misses.
 */
#ifndef RING_ENGINE_OUTSIDE_WAIT_H
#define RING_ENGINE_OUTSIDE_WAIT_H

#include "engine/run.h"

typedef struct ring_outside_wait {
  ring_engine *engine;
  ring_schedule schedule;
  ring_task task;
  ring_run run;
} ring_outside_wait;

/* Allocates for all ranks, so that later functions need no memory. RING_OK or RING_NO_MEMORY. */
ring_status ring_outside_wait_init(ring_outside_wait *outside, ring_engine *engine);
void ring_outside_wait_fini(ring_outside_wait *outside);

/* Records that this rank is in `call`, which other ranks may compare with theirs. */
void ring_outside_wait_record(ring_outside_wait *outside, const ring_call *call);

/* Begins to wait in the call that was recorded last. The deadline begins with the first look; that of opening has begun before. What the
 * arguments point to lasts until the end. */
void ring_outside_wait_begin(ring_outside_wait *outside, const ring_call *call,
                             const char *description, ring_wait *wait, ring_error *error);

/* Looks once, without blocking. RING_OK, or the failure, which *error then explains. */
ring_status ring_outside_wait_look(ring_outside_wait *outside);

/* Ends the wait; `status` is how. */
void ring_outside_wait_end(ring_outside_wait *outside, ring_status status);

#endif
