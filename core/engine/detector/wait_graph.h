/* SPDX-License-Identifier: Apache-2.0
 *
 * Suspicions: what a rank that waits knows about whom the job waits for.
 *
 * A rank suspects those that its lanes wait for. Where one of them has sent a wait report (wait report.h), it is
 * there and waits itself: then those that it suspects take its place. So after as many wait reports as
 * there are ranks between the two, each rank suspects who keeps all of them waiting. A wait report counts
 * until its sender sends anything else, takes it back, or does not repeat it in time.
 *
 * Who has passed the first barrier of open() may wait for a rank that has not, and have no link with it
 * over which to hear why. So whom ranks wait for that open is marked, all pass it on, and it takes the
 * place of a rank of which nothing shows that it has come farther.
 *
 * Ranks that wait for each other in a circle hear from each other also what they have said themselves,
 * and would keep it for ever. So a suspicion counts the steps that it has come; the nearest suspect is
 * the one at fault, and who seems farther than a rank can be is none.
 */
#ifndef RING_WAIT_GRAPH_H
#define RING_WAIT_GRAPH_H

#include "engine/run.h"

/* Whether a lane can only go on when its peer does something. */
bool ring_wait_graph_blocks(const ring_run *run, size_t lane);

/* The first rank that a lane waits for, or -1. */
int ring_wait_graph_first(const ring_run *run);

/* What a rank has said that still counts, or NULL. */
const ring_wait_report *ring_wait_graph_said(const ring_run *run, int rank);

/* The wait report of this rank: whom it suspects, and in which call. */
void ring_wait_graph_compose(const ring_run *run, ring_wait_report *report);

/* The same in the parent of a child that opens (split wait.h), where this rank suspects those of `below`. It
 * may have no link with them in the parent, and hears from others whom they wait for. */
void ring_wait_graph_compose_above(const ring_run *run, const struct ring_split_wait *split_wait,
                                   const ring_wait_report *below, ring_wait_report *report);

/* "rank 1 (host; last heard in barrier() as call 16), rank 3 (host; ...)": whom a run waits for.
 * Returns the rank at fault, or -1. */
int ring_wait_graph_whom(const ring_run *run, char *text, size_t size);

#endif
