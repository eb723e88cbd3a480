/* SPDX-License-Identifier: Apache-2.0
 *
 * Stalls: what a waiting rank does before anything has failed. It warns the user, exchanges wait
 * reports, and finds out from them (wait_graph.h, mismatch.h) whether it waits in vain.
 */
#ifndef RING_ENGINE_DETECTOR_STALL_H
#define RING_ENGINE_DETECTOR_STALL_H

#include "engine/run.h"

/* Warns the user that the run waits, and names the suspects. */
void ring_stall_warn(const ring_run *run);

/* After each look at the clock: sends a wait report when it is due. Fails when the wait is in
 * vain. */
ring_status ring_stall_search(ring_run *run);

/* After a run that has sent wait reports: withdraws what it showed to the ranks of this host. After
 * success, also withdraws a report whose suspects keep other ranks in open(), because peers would
 * keep passing them on. */
void ring_stall_end(const ring_run *run, ring_status status);

#endif
