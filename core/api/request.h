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
#ifndef RING_API_REQUEST_H
#define RING_API_REQUEST_H

#include "api/fusion.h"

/* Enters the communicator when all outstanding requests are done. RING_BUSY also in a hook of a request
 * that this thread runs itself. */
ring_status ring_comm_enter(ring_comm *comm);

/* begin enters the communicator and returns a request whose arguments the caller then fills. launch gets
 * the status of the filling; it admits and queues the request, or frees it, and leaves. */
ring_status ring_request_begin(ring_comm *comm, ring_request **request, collective_args **args);
ring_status ring_request_launch(ring_comm *comm, ring_status status, ring_request **request);

/* Completes everything outstanding with `error`, then breaks the communicator. False where both are
 * deferred until this thread leaves the hook of a request that it runs itself. */
bool ring_queue_abort(ring_comm *comm, const ring_error *error);

/* Ends the queue's use of a communicator that is no longer open. */
void ring_queue_detach(ring_comm *comm);

#endif
