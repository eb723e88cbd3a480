/* SPDX-License-Identifier: Apache-2.0 */
#include "request.h"

#include <stdlib.h>
#include <unistd.h>

#include "comm.h"
#include "error.h"
#include "interrupt.h"
#include "view.h"
#include "wide.h"

typedef struct request_handle {
  ring_request *request; /* NULL where starting it failed */
  const char *function;
  pid_t process; /* that started it */
} request_handle;

/* What the pointer protects, in a list. */
enum { REQUEST_COMM, REQUEST_INPUT, REQUEST_OUTPUT, REQUEST_KEPT };

static int live_requests; /* made and not yet freed: what test-request.R counts */

static SEXP request_tag(void) {
  return Rf_install("ring_request");
}

static SEXP request_kept(SEXP request, int which) {
  return VECTOR_ELT(R_ExternalPtrProtected(request), which);
}

static request_handle *request_of(SEXP request) {
  if (TYPEOF(request) != EXTPTRSXP || R_ExternalPtrTag(request) != request_tag())
    error_invalid("`request` must be a request, from a function such as ring_allreduce_start()");
  request_handle *handle = R_ExternalPtrAddr(request);
  if (handle == NULL)
    error_invalid("`request` was saved and loaded, or sent to another process, and is no longer a "
                  "request: call ring_wait() in the process that started it");
  if (handle->process != getpid())
    error_invalid(
        "`request` was started by the parent of this forked process: call ring_wait() in the "
        "parent");
  return handle;
}

/* Whether the request can be freed without a wait; in a forked child every request can. */
static bool request_is_free(const request_handle *handle) {
  int done = 0;
  if (handle->request == NULL || handle->process != getpid()) return true;
  interrupt_set_quiet(true);
  ring_request_test(handle->request, &done);
  interrupt_set_quiet(false);
  return done != 0;
}

/* ---- Life --------------------------------------------------------------------------------- */

/* MPI may still write to the output of a call that failed. */
static void request_hold(const comm_handle *handle, SEXP output) {
  if (ring_comm_holds_buffers(handle->comm)) R_PreserveObject(output);
}

static void request_free(SEXP request) {
  request_handle *handle = R_ExternalPtrAddr(request);
  const comm_handle *comm = R_ExternalPtrAddr(request_kept(request, REQUEST_COMM));
  if (comm != NULL) request_hold(comm, request_kept(request, REQUEST_OUTPUT));
  R_ClearExternalPtr(request);
  ring_request_free(handle->request);
  free(handle);
  live_requests--;
}

static void request_finalise(SEXP request) {
  const request_handle *handle = R_ExternalPtrAddr(request);
  if (handle == NULL) return;
  if (request_is_free(handle)) {
    request_free(request);
    return;
  }
  SEXP comm = request_kept(request, REQUEST_COMM);
  SEXP dropped = PROTECT(Rf_cons(request, R_ExternalPtrProtected(comm)));
  R_SetExternalPtrProtected(comm, dropped);
  UNPROTECT(1);
}

void request_sweep(SEXP comm) {
  SEXP before = R_NilValue, dropped = R_ExternalPtrProtected(comm);
  for (; dropped != R_NilValue; dropped = CDR(dropped)) {
    const request_handle *handle = R_ExternalPtrAddr(CAR(dropped));
    if (!request_is_free(handle)) {
      before = dropped;
      continue;
    }
    request_free(CAR(dropped));
    if (before == R_NilValue)
      R_SetExternalPtrProtected(comm, CDR(dropped));
    else
      SETCDR(before, CDR(dropped));
  }
}

SEXP request_new(SEXP start, SEXP comm, SEXP input, SEXP output) {
  if (Rf_asLogical(start) != TRUE) return R_NilValue;
  request_sweep(comm);
  SEXP kept = PROTECT(Rf_allocVector(VECSXP, REQUEST_KEPT));
  SET_VECTOR_ELT(kept, REQUEST_COMM, comm);
  SET_VECTOR_ELT(kept, REQUEST_INPUT, input);
  SET_VECTOR_ELT(kept, REQUEST_OUTPUT, output);
  SEXP request = PROTECT(R_MakeExternalPtr(NULL, request_tag(), kept));
  /* Not at the end of R: the communicator ends then, and its requests with it. */
  R_RegisterCFinalizer(request, request_finalise);
  SEXP class = PROTECT(Rf_mkString("ring_request"));
  Rf_setAttrib(request, R_ClassSymbol, class);
  request_handle *handle = calloc(1, sizeof(*handle));
  if (handle == NULL) error_raise(RING_NO_MEMORY, NULL);
  handle->process = getpid();
  R_SetExternalPtrAddr(request, handle);
  live_requests++;
  UNPROTECT(3);
  return request;
}

ring_request **request_slot(SEXP request, const char *function) {
  request_handle *handle = R_ExternalPtrAddr(request);
  handle->function = function;
  return &handle->request;
}

/* Converts the core's result to the user's. True where integers did not fit. */
static bool request_convert(SEXP output) {
  bool overflow = false;
  switch (TYPEOF(output)) {
  case LGLSXP:
    view_normalise(output);
    break;
  case INTSXP:
    overflow = wide_finish(output);
    break;
  case VECSXP:
    for (R_xlen_t i = 0; i < Rf_xlength(output); i++)
      overflow |= request_convert(VECTOR_ELT(output, i));
    break;
  default:
    break;
  }
  return overflow;
}

static void request_warn(bool overflow) {
  if (overflow)
    Rf_warning("NAs produced by integer overflow: call as.double() on the vectors, on every rank");
}

SEXP request_finish(SEXP request, comm_handle *handle, ring_status status, SEXP output) {
  if (status != RING_OK && request == R_NilValue) request_hold(handle, output);
  comm_finish(handle, status);
  if (request != R_NilValue) return request;
  PROTECT(output);
  request_warn(request_convert(output));
  UNPROTECT(1);
  return output;
}

/* ---- Entry points ------------------------------------------------------------------------- */

/* Releases the input of a request that is done, with this status. */
static void request_end(SEXP request, ring_status status) {
  const request_handle *handle = R_ExternalPtrAddr(request);
  SET_VECTOR_ELT(R_ExternalPtrProtected(request), REQUEST_INPUT, R_NilValue);
  if (status != RING_OK) error_raise(status, ring_request_error(handle->request));
}

SEXP request_wait(SEXP request) {
  const request_handle *handle = request_of(request);
  ring_status status = ring_request_wait(handle->request);
  interrupt_continue();
  if (status == RING_BUSY) error_raise(status, NULL); /* in a handler, during a wait for requests */
  request_end(request, status);
  SEXP output = request_kept(request, REQUEST_OUTPUT);
  request_warn(request_convert(output));
  return output;
}

SEXP request_test(SEXP request) {
  const request_handle *handle = request_of(request);
  int done;
  ring_status status = ring_request_test(handle->request, &done);
  interrupt_continue();
  if (done) request_end(request, status);
  return Rf_ScalarLogical(done);
}

SEXP request_describe(SEXP request) {
  const request_handle *handle = request_of(request);
  int done;
  ring_status status = ring_request_test(handle->request, &done);
  interrupt_continue();
  const char *state = !done ? "under way" : status == RING_OK ? "done" : "failed";
  SEXP words = PROTECT(Rf_allocVector(STRSXP, 2));
  SET_STRING_ELT(words, 0, Rf_mkChar(handle->function));
  SET_STRING_ELT(words, 1, Rf_mkChar(state));
  UNPROTECT(1);
  return words;
}

SEXP request_live(void) {
  return Rf_ScalarInteger(live_requests);
}
