/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests: started collectives. Each communicator has one queue, which runs its requests one at a
 * time, in the order of their starts.
 *
 * Invariants. The mutex guards the queue, except the field `done` of a request, which is set last.
 * At most one thread runs a request, without the mutex. No other thread then touches the backend or
 * the peers: a blocking call waits until nothing is outstanding. A helper thread runs requests; it
 * starts with the first request and ends when the queue is empty. A thread that waits runs
 * requests, too, where the helper has not taken them. Once `stop` is set no request begins, and the
 * running one ends soon; the thread that set it breaks the communicator.
 *
 * The communicator and every request that was not freed hold a reference to the queue, so requests
 * outlive the communicator. Freed requests are reused by later starts.
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
