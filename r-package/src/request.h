/* SPDX-License-Identifier: Apache-2.0
 *
 * The R object of a request: an external pointer of class "ring_request". It keeps the communicator,
 * the input and the result from collection, and holds the input in a list, so that R copies the
 * vector when the user modifies it meanwhile.
 *
 * Every collective has one entry point, blocking or started. With R_NilValue as the request the core
 * is called and blocks; otherwise the call is started.
 *
 * A request that is dropped before it is done must not make the collector wait. The communicator
 * takes it over with its buffers until it is done. The communicator looks for such requests whenever
 * it starts a request, and is finalised with all of them.
 */
#ifndef SPARKRING_REQUEST_H
#define SPARKRING_REQUEST_H

#include <Rinternals.h>

#include "comm.h"

/* A new request if `start` is TRUE; else R_NilValue. ring_wait() will return `output`. */
SEXP request_new(SEXP start, SEXP comm, SEXP input, SEXP output);

/* The place for the request that the core has started, of the function with this name. */
ring_request **request_slot(SEXP request, const char *function);

#define REQUEST_CALL(request, function, ...)                                                       \
  ((request) == R_NilValue ? function(__VA_ARGS__)                                                 \
                           : function##_start(__VA_ARGS__, request_slot(request, #function)))

/* The value that the entry point returns: the output or the request. Raises an error after a
 * failure. */
SEXP request_finish(SEXP request, comm_handle *handle, ring_status status, SEXP output);

/* Frees the requests that this communicator has taken over and that are done. */
void request_sweep(SEXP comm);

/* The entry points. R/collective-request.R documents them. */
SEXP request_wait(SEXP request);
SEXP request_test(SEXP request);
SEXP request_describe(SEXP request);
SEXP request_live(void);

#endif
