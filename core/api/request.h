/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests: started collectives. Each communicator has one queue, which runs them one at a time, in
 * order of their starts.
 *
 * Invariants. All of a queue is under its mutex, except a request's `done`, which is set last. At
 * most one thread runs a request ("drives"), without the mutex; nobody else then touches the engine,
 * the peers or the plans: calls wait until nothing is outstanding, then they are the calling
 * thread's. A helper thread drives; it begins with the first start and ends when the queue is empty.
 * A thread that waits drives, too, where the helper has not come to it yet. Once `stop` is set no
 * request begins, and the one that runs ends soon: whoever set it breaks the communicator.
 *
 * The queue belongs to its communicator and to every request that has not been freed, so requests
 * outlive the communicator. Freed requests are kept for the next start.
 */
#ifndef RING_REQUEST_H
#define RING_REQUEST_H

#include "api/collective.h"

/* Between these two a start fills what is asked. begin enters the communicator and gives a request;
 * launch, told how that went, admits and queues it or takes it back, and leaves. */
ring_status ring_request_begin(ring_comm *comm, ring_request **request, collective_args **asked);
ring_status ring_request_launch(ring_comm *comm, ring_status status, ring_request **request);

/* Waits until nothing is outstanding; false where that cannot be, as the thread is in a hook of a
 * request that it runs itself. For the thread that has entered the communicator. */
bool ring_queue_drain(ring_comm *comm);

/* Breaks the communicator with `error`; what is outstanding completes with it first. False where
 * that is yet to come: when the thread leaves the hook of a request that it runs itself. */
bool ring_queue_end(ring_comm *comm, const ring_error *error);

/* Why the queue was stopped, or NULL: what a run that was cut short should say. */
const ring_error *ring_queue_cause(const ring_comm *comm);

/* Gives the queue up, whose communicator is no longer open. */
void ring_queue_leave(ring_comm *comm);

#endif
