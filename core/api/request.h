/* SPDX-License-Identifier: Apache-2.0
 *
 * Starting requests. The public functions on a request are in request.c, too; request_queue.h runs
 * requests.
 */
#ifndef RING_REQUEST_H
#define RING_REQUEST_H

#include "api/request_queue.h"

/* begin enters the communicator and returns a request whose arguments the caller then fills. launch gets
 * the status of the filling; it admits and queues the request, or frees it, and leaves. */
ring_status ring_request_begin(ring_comm *comm, ring_request **request, collective_args **args);
ring_status ring_request_launch(ring_comm *comm, ring_status status, ring_request **request);

#endif
