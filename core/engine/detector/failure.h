/* SPDX-License-Identifier: Apache-2.0
 *
 * What can go wrong in a run, found out and put into words (failure.c), and told to the other ranks
 * (failure_broadcast.c). Whatever this rank learns it passes on once, to all its links, so that a failure
 * anywhere reaches everybody with the name of the rank at fault.
 */
#ifndef RING_FAILURE_H
#define RING_FAILURE_H

#include "engine/run.h"

#define RING_FAILURE_TELL_NS                                                                       \
  UINT64_C(200000000) /* for which a rank that fails says so to the others */

/* The link to a rank broke. It may have failed because of another one, which tells everybody; so
 * the others are given a moment to say so. */
ring_status ring_failure_lost(ring_run *run, int rank, int code);

/* No link to a rank could be opened, with a status and run->error that say so. It, too, may have ended
 * because of another one. */
ring_status ring_failure_unlinked(ring_run *run, ring_status status);

/* Whether another rank has said, after `call` was over here, why it failed; then *error is that. */
bool ring_failure_is_known(ring_engine *engine, const ring_call *call, ring_error *error);

/* Takes the wait reports that have come next from ranks that no lane reads from. */
ring_status ring_failure_hear(ring_run *run);

/* Whether what comes next from a rank, and no lane reads, is a FAIL frame, which is taken and
 * adopted, or shows that the rank called something different. */
bool ring_failure_fails(ring_run *run, int rank, ring_status *status);

/* A lane read a header that differs from the expected one: a failure, another call, or nonsense. */
ring_status ring_failure_unexpected(ring_run *run, size_t lane);

/* A rank called something else than this one. */
ring_status ring_failure_differ(const ring_run *run, int rank, const ring_call *theirs,
                                const ring_call *own);

/* What a rank sent fails its check. */
ring_status ring_failure_damaged(ring_run *run, int rank);

/* The wait ended: RING_TIMEOUT or RING_ABORTED. */
ring_status ring_failure_impatient(ring_run *run, ring_status why);

/* Tells every linked rank that this one has failed and why, in a fraction of a second. While the
 * communicator is being opened, ranks that get their link only now hear it, too. task is the one
 * that failed, or NULL when none was running. */
void ring_failure_tell(ring_engine *engine, const ring_task *task, const ring_error *error);

/* Sleeps for a moment, or until one of `events` may happen on the link. */
void ring_failure_sleep(ring_link *link, short events);

#endif
