/* SPDX-License-Identifier: Apache-2.0
 *
 * Events of a timeline as lines of a trace, in Chrome's format: "X" events for calls and their waits, which
 * are written when they end; nestable "b" and "e" events for frames, queues and negotiations, which overlap.
 */
#ifndef RING_BINDINGS_TRACE_EVENT_H
#define RING_BINDINGS_TRACE_EVENT_H

#include "bindings/trace_file.h"
#include "sparkring.h"

/* An event that has begun. */
typedef struct ring_trace_open {
  ring_event begin;
  bool is_open;
} ring_trace_open;

typedef struct ring_trace_events {
  int rank;
  bool cycles;                /* mark the begins of cycles */
  int64_t shift;              /* from this rank's clock to the time of the trace, in nanoseconds */
  ring_trace_open call, wait; /* a communicator runs one call at a time */
} ring_trace_events;

/* Adds the lines of one event: none where the begin of something is written with its end. */
void ring_trace_event_add(ring_trace_events *events, const ring_event *event,
                          ring_trace_text *text);

/* Adds provisional lines for the call and the wait that have not ended, with their duration until now. */
void ring_trace_event_add_open(const ring_trace_events *events, uint64_t now,
                               ring_trace_text *text);

/* Adds a mark, such as "512 events lost", at a time. */
void ring_trace_event_add_mark(const ring_trace_events *events, const char *name, uint64_t time,
                               ring_trace_text *text);

#endif
