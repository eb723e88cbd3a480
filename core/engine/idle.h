/* SPDX-License-Identifier: Apache-2.0
 *
 * Waits when no lane of a run can move: spins or yields for a moment, then sleeps on every link. A
 * rank that fails reports it on all its links, so a waiting rank receives the report whatever it
 * waits for. Links that are not open yet open meanwhile.
 */
#ifndef RING_ENGINE_IDLE_H
#define RING_ENGINE_IDLE_H

#include "engine/run.h"

/* Waits until something moves or may move, and receives reports on links that no lane reads
 * from. */
ring_status ring_idle_wait(ring_run *run);

/* The same for a run whose lanes move nothing themselves, without waiting (outside_wait.h). */
ring_status ring_idle_look(ring_run *run);

/* Checks the deadline and the interrupt hook, warns the user, and lets the detector search for the
 * cause of the wait. The deadline of a call begins anew whenever bytes move; that of open covers
 * all of the opening. */
ring_status ring_idle_check(ring_run *run);

#endif
