/* SPDX-License-Identifier: Apache-2.0
 *
 * Stalls: what a rank that waits tells the user and the other ranks about whom it suspects (wait_graph.h)
 * before anything has failed, and how it finds out that it waits in vain.
 */
#ifndef RING_STALL_H
#define RING_STALL_H

#include "engine/run.h"

/* Tells the user that a run waits, and for whom. */
void ring_stall_warn(const ring_run *run);

/* After each look at the clock: tells the other ranks when that is due, and finds out whether there is
 * nothing to wait for. */
ring_status ring_stall_search(ring_run *run);

/* Sends a wait report over all links that stand between two frames, if that is due or it says something else
 * than the last one; whether it did. */
bool ring_stall_say(const ring_run *run, ring_search *search, const ring_wait_report *report,
                    bool due);

/* Says to the others that this rank waits for nobody, if it has said something else in this call. */
void ring_stall_withdraw(const ring_run *run, ring_search *search);

/* Takes back what a run has shown to the ranks of this host: it waits no more. Where it has not failed,
 * also what it has said of ranks that keep others in open(), which these believe whom it waited for. */
void ring_stall_end(const ring_run *run, ring_status status);

#endif
