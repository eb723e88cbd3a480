/* SPDX-License-Identifier: Apache-2.0
 *
 * How a shm group fails, and why a wait ends without the flag.
 *
 * The first rank that fails writes its error on the control block and wakes all ranks. Every other
 * rank looks there before each call, between the pieces of a large call and after every sleep, and
 * fails with the same error. A rank returns from a failed call once no other rank can write to its
 * buffers: all have left the call, or the buffers have been withdrawn from a rank that was stopped
 * in it.
 *
 * A rank that has died, or is in another call, writes no error. After a sleep a waiter therefore
 * also checks whether the other ranks still hold their places in the arena, and which calls they
 * announced.
 */
#ifndef RING_SHM_SHM_FAILURE_H
#define RING_SHM_SHM_FAILURE_H

#include "shm/control_block.h"

/* Publishes the error with which this rank fails, unless another rank has published one, and wakes
 * all. Then waits, for half a second at most, until no other rank uses this rank's buffers. After
 * that it withdraws them: a rank that still uses them was stopped. */
void ring_shm_fail(ring_shm *shm, const ring_error *error);

/* Whether a rank has failed; then *error is why. The error is RING_ABORTED if the ranks timed out
 * waiting for this rank, and it had not waited as long itself: it begins a call or works in one
 * (`wait` is NULL), began to wait late, or was suspended in its wait. */
bool ring_shm_failed(const ring_shm *shm, const ring_wait *wait, ring_error *error);

/* Checks after a sleep whether the flag of rank `index` can still be published: a failure, the
 * deadline, another call, a dead process. RING_OK: it can. */
ring_status ring_shm_check(const ring_shm_call *call, int index, ring_wait *wait);

/* The error of a call of which rank `index` needs nothing more, by `flag`, although it has not
 * finished it. */
ring_status ring_shm_left(const ring_shm_call *call, int index, uint64_t flag);

/* The error of a call for which rank `index` has published another digest. */
ring_status ring_shm_differs(const ring_shm_call *call, int index);

/* The error of a call in which rank `index` has published buffers where there can be none. */
ring_status ring_shm_misleads(const ring_shm_call *call, int index);

#endif
