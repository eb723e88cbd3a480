/* SPDX-License-Identifier: Apache-2.0
 *
 * Failures of a run: finds out why a run cannot go on, and fills run->error with the cause and the
 * rank at fault. A broken link is rarely the cause: a peer may have ended the link because another
 * rank failed. So this rank waits for a moment for a peer's report of the failure
 * (failure_frame.h).
 */
#ifndef RING_ENGINE_DETECTOR_FAILURE_H
#define RING_ENGINE_DETECTOR_FAILURE_H

#include "engine/run.h"

/* The link to a rank broke with errno `code`. */
ring_status ring_failure_lost(ring_run *run, int rank, int code);

/* Explains why a link could not be opened. `status` and run->error are the result of the attempt;
 * RING_OK is passed on. The rank at the other end may have ended because another rank failed. */
ring_status ring_failure_unlinked(ring_run *run, ring_status status);

/* Receives what comes next from a rank that no lane reads from. Returns true, and sets *status,
 * when that fails the run: a FAIL frame, or a frame or wait report that shows a mismatch. */
bool ring_failure_receive(ring_run *run, int rank, ring_status *status);

/* A lane read a header that differs from the expected header. Returns RING_OK for a wait report,
 * which it receives, and otherwise the failure: a FAIL frame, another call, or damaged bytes. */
ring_status ring_failure_unexpected(ring_run *run, size_t lane);

/* The wait of the run ended with RING_TIMEOUT or RING_ABORTED. */
ring_status ring_failure_wait_ended(ring_run *run, ring_status why);

/* Waits for a moment, after `call` has ended on this rank, for a peer's report of a failure.
 * Returns true, and fills *error, when a report has come. */
bool ring_failure_await_report(ring_engine *engine, const ring_call *call, ring_error *error);

#endif
