/* SPDX-License-Identifier: Apache-2.0
 *
 * The trace of a communicator (core/bindings/trace.h), which its handle owns. R/comm-timeline.R
 * documents the entry points.
 */
#ifndef SPARKRING_TRACE_H
#define SPARKRING_TRACE_H

#include "comm.h"

/* The offset of this rank's clock, as raw bytes for trace_start. Collective. */
SEXP trace_measure_clock(SEXP comm);

/* Raises an error where there can be no file. Not collective. */
SEXP trace_start(SEXP comm, SEXP directory, SEXP clock, SEXP cycles);

/* The text of the first write that has failed, or NULL. Does nothing without a trace. */
SEXP trace_stop(SEXP comm);

/* Ends the trace of a communicator that has ended. Returns an errno or 0. */
int trace_end(comm_handle *handle);

/* Warns unless the code is 0. */
void trace_warn(int code);

#endif
