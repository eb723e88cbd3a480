/* SPDX-License-Identifier: Apache-2.0
 *
 * The trace of a communicator: a thread that copies the events of its timeline (sparkring_tools.h) into a
 * trace file of this rank, twenty times a second, so that calls are not delayed by the file. A process that
 * is killed loses the events of the last 50 ms. The file has up to 256 MiB; its last event then reports that.
 */
#ifndef RING_BINDINGS_TRACE_H
#define RING_BINDINGS_TRACE_H

#include <stdbool.h>

#include "bindings/clock_offset.h"

typedef struct ring_trace ring_trace;

/* Records `comm` into the file rank-<rank>-<epoch>.json of a directory, which has to exist. `offset` is of
 * ring_clock_offset_measure. Not collective. Returns 0 or an errno. */
int ring_trace_start(ring_comm *comm, const char *directory, const ring_clock_offset *offset,
                     bool cycles, ring_trace **trace);

/* Writes the last events, and ends. Call it before ring_comm_free; the communicator may be closed or broken.
 * NULL does nothing. A forked child only frees. Returns 0 or the errno of the first write that has failed. */
int ring_trace_stop(ring_trace *trace);

#endif
