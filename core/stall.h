/* SPDX-License-Identifier: Apache-2.0
 *
 * Stalls: what a rank that waits knows about whom it waits for, and what it tells the user about it
 * before anything has failed.
 */
#ifndef RING_STALL_H
#define RING_STALL_H

#include "run.h"

/* "rank 1 (host; last heard in barrier() as call 16), rank 3 (host; ...)": whom the lanes of a run wait
 * for. Returns the first. */
int ring_stall_whom(const ring_run *run, char *text, size_t size);

/* Tells the user that a run waits, and for whom. */
void ring_stall_warn(const ring_run *run);

#endif
