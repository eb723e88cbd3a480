/* SPDX-License-Identifier: Apache-2.0 */
#include "trace.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "error.h"

SEXP trace_measure_clock(SEXP comm) {
  comm_handle *handle = comm_of(comm);
  SEXP clock = PROTECT(Rf_allocVector(RAWSXP, sizeof(ring_clock_offset)));
  ring_clock_offset offset;
  comm_finish(handle, ring_clock_offset_measure(handle->comm, &offset));
  memcpy(RAW(clock), &offset, sizeof offset);
  UNPROTECT(1);
  return clock;
}

SEXP trace_start(SEXP comm, SEXP directory, SEXP clock, SEXP cycles) {
  comm_handle *handle = comm_of(comm);
  const char *path = Rf_translateChar(STRING_ELT(directory, 0));
  ring_clock_offset offset;
  memcpy(&offset, RAW_RO(clock), sizeof offset);
  if (handle->trace != NULL)
    error_invalid("there is a timeline already: call ring_timeline_stop() first");
  int code =
      ring_trace_start(handle->comm, path, &offset, Rf_asLogical(cycles) == TRUE, &handle->trace);
  if (code == 0) return R_NilValue;
  ring_error error = {.status = RING_SYSTEM, .rank = -1, .system_errno = code};
  snprintf(error.message, sizeof error.message, "there can be no timeline in %s: %s", path,
           strerror(code));
  error_raise(RING_SYSTEM, &error);
}

int trace_end(comm_handle *handle) {
  ring_trace *trace = handle->trace;
  handle->trace = NULL;
  return ring_trace_stop(trace);
}

SEXP trace_stop(SEXP comm) {
  int code = trace_end(comm_of(comm));
  return code == 0 ? R_NilValue : Rf_mkString(strerror(code));
}

void trace_warn(int code) {
  if (code != 0) Rf_warning("the timeline lacks its last events: %s", strerror(code));
}
