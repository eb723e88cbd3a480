/* SPDX-License-Identifier: Apache-2.0
 *
 * The R object of a request: an external pointer of class "ring_request". It keeps the
 * communicator, the input and the result from collection, and holds the input in a list, so that R
 * copies the vector when the user modifies it meanwhile.
 *
 * Every collective has one entry point, blocking or started: with a request that is R_NilValue the
 * core is called and waited for, else the call is started.
 *
 * A request that is dropped before it is done must not make the collector wait: the communicator
 * takes it over, buffers and all, until it is done. The communicator looks for such requests
 * whenever it starts one, and is finalised with all of them.
 */
#ifndef SPARKRING_REQUEST_H
#define SPARKRING_REQUEST_H

#include <Rinternals.h>

#include "comm.h"

/* A request to be, if `start` is TRUE; else R_NilValue. ring_wait() will return `output`. */
SEXP request_new(SEXP start, SEXP comm, SEXP input, SEXP output);

/* Where the core puts the request that it has started, of the function with this name. */
ring_request **request_slot(SEXP request, const char *function);

#define REQUEST_CALL(request, function, ...)                                                       \
  ((request) == R_NilValue ? function(__VA_ARGS__)                                                 \
                           : function##_start(__VA_ARGS__, request_slot(request, #function)))

/* What the entry point returns after that: the output or the request. Does not return after a
 * failure. */
SEXP request_finish(SEXP request, comm_handle *handle, ring_status status, SEXP output);

/* Frees the requests that this communicator has taken over and that are done. */
void request_sweep(SEXP comm);

/* The entry points; R/collective-request.R says what they mean. */
SEXP request_wait(SEXP request);
SEXP request_test(SEXP request);
SEXP request_describe(SEXP request);
SEXP request_live(void);

#endif
