/* SPDX-License-Identifier: Apache-2.0
 *
 * The trace of a communicator (core/bindings/trace.h). The communicator object owns it.
 * sparkring/_calls/timeline.py has the methods start_timeline and stop_timeline, which call these functions.
 */
#ifndef SPARKRING_TRACE_H
#define SPARKRING_TRACE_H

#include "comm.h"

/* _measure_clock(): the offset of this rank's clock as a tuple of three numbers. Collective. */
PyObject *trace_measure_clock(PyObject *self, PyObject *unused);

/* _start_trace(directory, clock, mark_cycles): OSError where there can be no file. Not collective. */
PyObject *trace_start(PyObject *self, PyObject *args);

/* _stop_trace(): OSError when a write has failed. Does nothing without a trace. */
PyObject *trace_stop(PyObject *self, PyObject *unused);

/* Ends the trace of a communicator that has ended. Warns when a write has failed. Keeps an exception that
 * is set. */
void trace_end(comm_object *self);

#endif
