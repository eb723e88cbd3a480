/* SPDX-License-Identifier: Apache-2.0 */
#include "comm.h"

#include <R_ext/Memory.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "error.h"
#include "interrupt.h"
#include "request.h"
#include "trace.h"

static int live_handles;     /* made and not yet finalised: what test-gc.R counts */
static comm_handle *current; /* the last one that was opened, while it lives */
static bool r_ends;          /* R runs the finalizers of its end */

static SEXP comm_tag(void) {
  static SEXP tag; /* symbols are never collected */
  if (tag == NULL) tag = Rf_install("ring_comm");
  return tag;
}

comm_handle *comm_of(SEXP comm) {
  if (Rf_inherits(comm, "data.frame"))
    error_invalid("`comm` must be a communicator, as ring_init() returns it, not a data frame: "
                  "pass the communicator first, and the rows after it");
  if (Rf_inherits(comm, "tbl_spark"))
    error_invalid("`comm` must be a communicator, as ring_init() returns it, not a Spark table: "
                  "call the function in a function of ring_apply()");
  if (TYPEOF(comm) != EXTPTRSXP || R_ExternalPtrTag(comm) != comm_tag())
    error_invalid("`comm` must be a communicator, as ring_init() returns it");
  comm_handle *handle = R_ExternalPtrAddr(comm);
  if (handle == NULL)
    error_invalid("`comm` was saved and loaded, or sent to another process, and is no longer a "
                  "communicator: call ring_init() in every process");
  return handle;
}

int comm_read_rank(SEXP rank, const char *name) {
  int type = TYPEOF(rank);
  if ((type != INTSXP && type != REALSXP) || Rf_xlength(rank) != 1 || Rf_isFactor(rank))
    error_number(rank, name);
  double number = Rf_asReal(rank);
  if (!(number >= -INT_MAX && number <= INT_MAX) || number != trunc(number))
    error_number(rank, name);
  if (number < 0) error_invalid("`%s` is %.0f: it must be 0 or more", name, number);
  return (int)number;
}

bool comm_is_rank(const comm_handle *handle, int rank) {
  return ring_comm_rank(handle->comm) == rank;
}

void comm_finish(comm_handle *handle, ring_status status) {
  interrupt_continue();
  if (status != RING_OK) error_raise(status, ring_comm_error(handle->comm));
}

/* ---- Life --------------------------------------------------------------------------------- */

static void comm_finalise(SEXP pointer) {
  comm_handle *handle = R_ExternalPtrAddr(pointer);
  if (handle == NULL) return;
  R_ClearExternalPtr(pointer);
  if (current == handle) current = NULL;
  if (r_ends) ring_comm_abort(handle->comm, "its R process ended without closing it");
  (void)trace_end(handle);
  ring_comm_free(handle->comm);
  request_sweep(pointer);
  free(handle);
  live_handles--;
}

static void comm_note_end(SEXP sentinel) {
  if (R_ExternalPtrAddr(sentinel) != NULL) r_ends = true;
}

/* At its end R runs finalizers in the reverse order of their registration, so an object that lives
 * until then, and is registered after a communicator, is finalized before it. */
static void comm_watch_end(void) {
  static SEXP sentinel;
  if (sentinel != NULL) {
    R_ClearExternalPtr(sentinel);
    R_ReleaseObject(sentinel);
  }
  sentinel = R_MakeExternalPtr(&r_ends, R_NilValue, R_NilValue);
  R_PreserveObject(sentinel);
  R_RegisterCFinalizerEx(sentinel, comm_note_end, TRUE);
}

static SEXP comm_new(void) {
  SEXP pointer = PROTECT(R_MakeExternalPtr(NULL, comm_tag(), R_NilValue));
  R_RegisterCFinalizerEx(pointer, comm_finalise, TRUE);
  comm_watch_end();
  SEXP class = PROTECT(Rf_mkString("ring_comm"));
  Rf_setAttrib(pointer, R_ClassSymbol, class);
  comm_handle *handle = calloc(1, sizeof(*handle));
  if (handle == NULL) error_raise(RING_NO_MEMORY, NULL);
  handle->process = getpid();
  R_SetExternalPtrAddr(pointer, handle);
  live_handles++;
  UNPROTECT(2);
  return pointer;
}

static bool comm_is_open(const comm_handle *handle) {
  return handle != NULL && handle->process == getpid() && ring_comm_usable(handle->comm);
}

/* Refuses a second communicator. An open communicator without references does not count: the collector
 * frees it. */
static void comm_refuse_second(void) {
  if (comm_is_open(current)) R_gc();
  if (comm_is_open(current))
    error_invalid("this process has an open communicator already: ring_close() or ring_abort() it "
                  "before the next ring_init()");
}

static const char *comm_string(SEXP x) {
  return x == R_NilValue ? NULL : Rf_translateCharUTF8(STRING_ELT(x, 0));
}

static const char **comm_strings(SEXP x) {
  R_xlen_t count = Rf_xlength(x);
  const char **strings = (const char **)R_alloc((size_t)count, sizeof(*strings));
  for (R_xlen_t i = 0; i < count; i++) strings[i] = Rf_translateCharUTF8(STRING_ELT(x, i));
  return strings;
}

/* NULL is the default. */
static ring_choice comm_choice(SEXP x) {
  if (x == R_NilValue) return RING_DEFAULT;
  return Rf_asLogical(x) == TRUE ? RING_ON : RING_OFF;
}

static ring_options comm_options(SEXP addresses, SEXP token, SEXP ports) {
  ring_options options = RING_OPTIONS_INIT;
  if (addresses != R_NilValue) {
    options.addresses = comm_strings(addresses);
    options.address_count = (int)Rf_xlength(addresses);
  }
  if (token != R_NilValue) {
    options.token = RAW_RO(token);
    options.token_length = (size_t)Rf_xlength(token);
  }
  if (ports != R_NilValue) {
    options.port_first = (uint16_t)INTEGER_RO(ports)[0];
    options.port_last = (uint16_t)INTEGER_RO(ports)[1];
  }
  options.interrupt = interrupt_hook;
  options.log = interrupt_log;
  return options;
}

SEXP comm_open(SEXP rank, SEXP size, SEXP addresses, SEXP root_address, SEXP token, SEXP job,
               SEXP ports, SEXP timeout, SEXP call_timeout, SEXP warn_after, SEXP algorithms,
               SEXP shared_memory, SEXP connections, SEXP encryption, SEXP watch_parent,
               SEXP backend) {
  comm_refuse_second();
  SEXP pointer = PROTECT(comm_new());
  comm_handle *handle = R_ExternalPtrAddr(pointer);
  ring_options options = comm_options(addresses, token, ports);
  options.rank = Rf_asInteger(rank);
  options.size = Rf_asInteger(size);
  options.root_address = comm_string(root_address);
  options.job = comm_string(job);
  options.timeout = Rf_asReal(timeout);
  options.call_timeout = Rf_asReal(call_timeout);
  options.warn_after = Rf_asReal(warn_after);
  options.algorithms = comm_string(algorithms);
  handle->shares = Rf_asLogical(shared_memory) == TRUE;
  if (!handle->shares) options.shared_memory = RING_OFF;
  options.connections = Rf_asInteger(connections);
  options.encryption = comm_choice(encryption);
  options.watch_parent = comm_choice(watch_parent);
  options.backend = comm_string(backend);
  ring_error error;
  ring_status status = ring_comm_open(&options, &handle->comm, &error);
  if (status == RING_OK) current = handle;
  interrupt_continue();
  if (status != RING_OK) error_raise(status, &error);
  UNPROTECT(1);
  return pointer;
}

SEXP comm_split(SEXP comm, SEXP color, SEXP key) {
  comm_handle *handle = comm_of(comm);
  SEXP pointer = PROTECT(comm_new());
  comm_handle *child = R_ExternalPtrAddr(pointer);
  child->shares = handle->shares;
  comm_finish(handle,
              ring_comm_split(handle->comm, Rf_asInteger(color), Rf_asInteger(key), &child->comm));
  UNPROTECT(1);
  return child->comm != NULL ? pointer : R_NilValue;
}

SEXP comm_shrink(SEXP comm, SEXP seconds) {
  comm_handle *handle = comm_of(comm);
  SEXP pointer = PROTECT(comm_new());
  comm_handle *child = R_ExternalPtrAddr(pointer);
  ring_error error;
  child->shares = handle->shares;
  ring_status status = ring_comm_shrink(handle->comm, Rf_asReal(seconds), &child->comm, &error);
  if (status == RING_OK && current == handle) current = child;
  handle->closed = handle->closed || status == RING_OK;
  int code = handle->closed ? trace_end(handle) : 0;
  interrupt_continue();
  if (status != RING_OK) error_raise(status, &error);
  trace_warn(code); /* may jump */
  UNPROTECT(1);
  return pointer;
}

SEXP comm_close(SEXP comm, SEXP seconds) {
  comm_handle *handle = comm_of(comm);
  if (handle->closed) return R_NilValue;
  ring_status status = ring_comm_close_within(handle->comm, Rf_asReal(seconds));
  handle->closed = status != RING_BUSY;
  int code = handle->closed ? trace_end(handle) : 0;
  comm_finish(handle, status);
  trace_warn(code); /* may jump */
  return R_NilValue;
}

/* In a handler of a condition that a call on it signals, the call fails when the handler returns. */
SEXP comm_abort(SEXP comm, SEXP reason) {
  comm_handle *handle = comm_of(comm);
  if (handle->closed) return R_NilValue;
  const char *text = comm_string(reason); /* may jump */
  ring_comm_abort(handle->comm, text);
  handle->closed = true;
  interrupt_continue();
  trace_warn(trace_end(handle));
  return R_NilValue;
}

/* ---- Properties --------------------------------------------------------------------------- */

SEXP comm_rank(SEXP comm) {
  return Rf_ScalarInteger(ring_comm_rank(comm_of(comm)->comm));
}

SEXP comm_size(SEXP comm) {
  return Rf_ScalarInteger(ring_comm_size(comm_of(comm)->comm));
}

SEXP comm_local_rank(SEXP comm) {
  return Rf_ScalarInteger(ring_comm_local_rank(comm_of(comm)->comm));
}

SEXP comm_local_size(SEXP comm) {
  return Rf_ScalarInteger(ring_comm_local_size(comm_of(comm)->comm));
}

SEXP comm_hosts(SEXP comm) {
  const ring_comm *ring = comm_of(comm)->comm;
  int size = ring_comm_size(ring);
  SEXP hosts = PROTECT(Rf_allocVector(STRSXP, size));
  for (int rank = 0; rank < size; rank++)
    SET_STRING_ELT(hosts, rank, Rf_mkCharCE(ring_comm_host(ring, rank), CE_UTF8));
  UNPROTECT(1);
  return hosts;
}

SEXP comm_encrypted(SEXP comm) {
  return Rf_ScalarLogical(ring_comm_encrypted(comm_of(comm)->comm));
}

SEXP comm_authenticated(SEXP comm) {
  return Rf_ScalarLogical(ring_comm_authenticated(comm_of(comm)->comm));
}

SEXP comm_state(SEXP comm) {
  const comm_handle *handle = comm_of(comm);
  if (ring_comm_usable(handle->comm)) return Rf_mkString("open");
  return Rf_mkString(handle->closed ? "closed" : "broken");
}

SEXP comm_counters(SEXP comm, SEXP peer) {
  static const char *names[] = {
      "calls",         "bytes_sent",        "bytes_received", "bytes_shared",
      "messages_sent", "messages_received", "wait_ns",        ""};
  comm_handle *handle = comm_of(comm);
  int of = peer == R_NilValue ? -1 : Rf_asInteger(peer);
  ring_counters counters;
  ring_status status = ring_comm_counters(handle->comm, of, &counters);
  if (status != RING_OK)
    error_invalid("`peer` is %d: ranks go from 0 to %d", of, ring_comm_size(handle->comm) - 1);
  const double values[] = {(double)counters.calls,          (double)counters.bytes_sent,
                           (double)counters.bytes_received, (double)counters.bytes_shared,
                           (double)counters.messages_sent,  (double)counters.messages_received,
                           (double)counters.wait_ns};
  SEXP list = PROTECT(Rf_mkNamed(VECSXP, names));
  for (int i = 0; i < Rf_length(list); i++) SET_VECTOR_ELT(list, i, Rf_ScalarReal(values[i]));
  UNPROTECT(1);
  return list;
}

SEXP comm_live(void) {
  return Rf_ScalarInteger(live_handles);
}
