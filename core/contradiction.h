/* SPDX-License-Identifier: Apache-2.0
 *
 * Contradictions: notices (notice.h) show that ranks have called different things where they never
 * compare frames. One says what its sender called under a number under which this rank called something
 * else; or that it cannot go on without this rank, which itself cannot go on without the sender. Links
 * keep order, so what the sender of a notice had for this rank before has come by then.
 */
#ifndef RING_CONTRADICTION_H
#define RING_CONTRADICTION_H

#include "run.h"

/* RING_MISMATCH when this rank waits for one that will not come; `notice` is what it says itself. */
ring_status ring_contradiction_check(const ring_run *run, const ring_notice *notice);

/* The same of a notice of a rank that has just come. */
ring_status ring_contradiction_heard(const ring_run *run, int rank);

#endif
