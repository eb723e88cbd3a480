/* SPDX-License-Identifier: Apache-2.0
 *
 * Contradictions: wait reports (wait report.h) show that ranks have called different things where they never
 * compare frames. One says what its sender called under a number under which this rank called something
 * else; or that it cannot go on without this rank, which itself cannot go on without the sender. Links
 * keep order, so what the sender of a wait report had for this rank before has come by then.
 */
#ifndef RING_MISMATCH_H
#define RING_MISMATCH_H

#include "engine/run.h"

/* RING_MISMATCH when this rank waits for one that will not come; `wait report` is what it says itself. */
ring_status ring_mismatch_check(const ring_run *run, const ring_wait_report *report);

/* The same of a wait report of a rank that has just come. */
ring_status ring_mismatch_heard(const ring_run *run, int rank);

#endif
