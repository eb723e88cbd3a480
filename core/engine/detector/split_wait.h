/* SPDX-License-Identifier: Apache-2.0
 *
 * Split waits: a rank that waits in a child communicator, which is being split off, keeps
 * exchanging wait reports in the parent. A missing rank of the child may still be in the split,
 * where another rank keeps it, and reports that in the parent only; and ranks that are still in the
 * split may wait for this rank. The reports of the parent and the child together show the rank that
 * keeps all of them.
 */
#ifndef RING_ENGINE_DETECTOR_SPLIT_WAIT_H
#define RING_ENGINE_DETECTOR_SPLIT_WAIT_H

#include "engine/run.h"

/* Begins a split wait: this rank has received its results of the split. Withdraws its wait report
 * in the parent, receives the reports that have come, and forgets them: ranks that still wait
 * repeat theirs. */
ring_status ring_split_wait_begin(ring_split_wait *split_wait);

/* Receives and sends wait reports in the parent. `run` opens the child and suspects the ranks of
 * `report`; due: the report in the parent is to be sent even if it has not changed. Fails with
 * split_wait->failure. */
ring_status ring_split_wait_search(ring_run *run, const ring_wait_report *report, bool due);

/* Ends a split wait: withdraws the wait report in the parent and in shared memory. */
void ring_split_wait_end(ring_split_wait *split_wait);

/* "; in the communicator that is being split all wait for rank 3 (host)"; "" without a suspect
 * there or without a split wait (NULL). */
void ring_split_wait_describe(const ring_split_wait *split_wait, char *text, size_t size);

#endif
