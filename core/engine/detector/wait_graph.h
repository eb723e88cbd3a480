/* SPDX-License-Identifier: Apache-2.0
 *
 * The wait graph: what a waiting rank knows about the ranks that the job waits for.
 *
 * A rank suspects the peers that its lanes wait for. A peer that has sent a wait report
 * (peers/wait_report.h) is alive and waits itself: its suspects take its place. After as many
 * reports as there are ranks in between, each rank suspects the rank that keeps all of them. A
 * report counts until its sender sends anything else, withdraws it, or does not repeat it in time.
 *
 * A rank that is past the first barrier of open() may wait for a rank that is not, without a link
 * to it that could carry reports. So the suspects of ranks in open() are marked, and all ranks pass
 * the mark on. A marked suspect takes the place of a suspected peer, unless something shows that
 * the peer is past open().
 *
 * Ranks that wait for each other in a circle would receive their own suspects back, and keep them
 * for ever. So a suspect counts the steps from the reporting rank. The nearest suspect is at fault,
 * and a suspect that is farther away than ranks can be is dropped.
 */
#ifndef RING_ENGINE_DETECTOR_WAIT_GRAPH_H
#define RING_ENGINE_DETECTOR_WAIT_GRAPH_H

#include "engine/run.h"

/* Whether a lane can go on only when its peer does something. */
bool ring_wait_graph_blocks(const ring_run *run, size_t lane);

/* The peer of the first lane that waits, or -1. */
int ring_wait_graph_first(const ring_run *run);

/* The latest wait report of a rank if it still counts, or NULL. */
const ring_wait_report *ring_wait_graph_report(const ring_run *run, int rank);

/* Composes the wait report of this rank: its call and its suspects. */
void ring_wait_graph_compose(const ring_run *run, ring_wait_report *report);

/* Composes the wait report of this rank in the parent of a child that opens (split_wait.h). `below`
 * is its report in the child. This rank may have no link to a suspect in the parent; then it relies
 * on the reports of other ranks. */
void ring_wait_graph_compose_above(const ring_run *run, const ring_split_wait *split_wait,
                                   const ring_wait_report *below, ring_wait_report *report);

/* "rank 1 (host; last seen in barrier() as call 16), rank 3 (host; ...)": describes the suspects
 * of a run. Returns the rank at fault, or -1 where several may be. */
int ring_wait_graph_describe(const ring_run *run, char *text, size_t size);

#endif
