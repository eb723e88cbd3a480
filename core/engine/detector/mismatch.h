/* SPDX-License-Identifier: Apache-2.0
 *
 * Mismatches: finds out from wait reports (peers/wait_report.h) that ranks made different calls
 * where their lanes never compare frames. A wait report shows a mismatch in two ways: its sender is
 * in a different call with the same sequence number; or its sender cannot go on without this rank,
 * and this rank cannot go on without the sender. A link keeps order, so this rank has received
 * everything that the sender sent before the wait report.
 */
#ifndef RING_ENGINE_DETECTOR_MISMATCH_H
#define RING_ENGINE_DETECTOR_MISMATCH_H

#include "engine/run.h"

/* Checks all ranks that this rank waits for, and the suspects of `report`, the wait report of this
 * rank. Returns RING_MISMATCH when this rank waits in vain. */
ring_status ring_mismatch_check(const ring_run *run, const ring_wait_report *report);

/* Checks a wait report that has just come from a rank. */
ring_status ring_mismatch_received(const ring_run *run, int rank);

#endif
