/* SPDX-License-Identifier: Apache-2.0
 *
 * Stalls: what a rank that waits knows about whom the job waits for, and what it tells the user and
 * the other ranks about it before anything has failed.
 *
 * A rank suspects those that its lanes wait for. Where one of them has sent a notice (notice.h), it is
 * there and waits itself: then those that it suspects take its place. So after as many notices as
 * there are ranks between the two, each rank suspects who keeps all of them waiting. A notice counts
 * until its sender sends anything else, or does not repeat it in time.
 *
 * Ranks that wait for each other in a circle hear from each other also what they have said themselves,
 * and would keep it for ever. So a suspicion counts the steps that it has come; the nearest suspect is
 * the one at fault, and who seems farther than a rank can be is none.
 *
 * Notices also show that ranks have called different things where they never compare frames: one says
 * what its sender called under a number under which this rank called something else; or that it
 * cannot go on without this rank, which itself cannot go on without the sender. Links keep order, so
 * what the sender of a notice had for this rank before has come by then.
 */
#ifndef RING_STALL_H
#define RING_STALL_H

#include "run.h"

/* "rank 1 (host; last heard in barrier() as call 16), rank 3 (host; ...)": whom a run waits for.
 * Returns the rank at fault, or -1. */
int ring_stall_whom(const ring_run *run, char *text, size_t size);

/* Tells the user that a run waits, and for whom. */
void ring_stall_warn(const ring_run *run);

/* After each look at the clock: tells the other ranks when that is due, and finds out whether there is
 * nothing to wait for. */
ring_status ring_stall_search(ring_run *run);

/* Takes back what a run has shown to the ranks of this host: it waits no more. */
void ring_stall_end(const ring_run *run);

/* Takes in a notice of a rank that has just come; RING_MISMATCH when it contradicts this rank. */
ring_status ring_stall_heard(const ring_run *run, int rank);

#endif
