/* SPDX-License-Identifier: Apache-2.0 */
#include "bindings/trace_event.h"

#include <string.h>

#define TRACE_EVENT_BYTES 512 /* more than any line has */

/* ---- Pieces of a line --------------------------------------------------------------------- */

/* snprintf would take a third of the writer's time. */
static char *trace_event_word(char *to, const char *word) {
  size_t length = strlen(word);
  memcpy(to, word, length);
  return to + length;
}

static char *trace_event_number(char *to, uint64_t number) {
  char digits[20];
  int count = 0;
  do digits[count++] = (char)('0' + number % 10);
  while ((number /= 10) > 0);
  while (count > 0) *to++ = digits[--count];
  return to;
}

/* Nanoseconds as microseconds with three decimals. */
static char *trace_event_time(char *to, int64_t nanoseconds) {
  uint64_t time = nanoseconds < 0 ? 0 : (uint64_t)nanoseconds;
  to = trace_event_number(to, time / 1000);
  *to++ = '.';
  *to++ = (char)('0' + time / 100 % 10);
  *to++ = (char)('0' + time / 10 % 10);
  *to++ = (char)('0' + time % 10);
  return to;
}

/* From the begin of a line to the value of "ts". */
static char *trace_event_begin(char *to, const ring_trace_events *events, const char *name,
                               const char *kind, uint64_t time) {
  to = trace_event_word(to, "\n,{\"name\":\"");
  to = trace_event_word(to, name);
  to = trace_event_word(to, "\",");
  to = trace_event_word(to, kind);
  to = trace_event_word(to, ",\"pid\":");
  to = trace_event_number(to, (uint64_t)events->rank);
  to = trace_event_word(to, ",\"tid\":0,\"ts\":");
  return trace_event_time(to, (int64_t)time + events->shift);
}

static char *trace_event_field(char *to, const char *name, uint64_t value) {
  to = trace_event_word(to, name);
  return trace_event_number(to, value);
}

/* ---- Lines -------------------------------------------------------------------------------- */

/* A call or a wait, from its begin to `end`. */
static void trace_event_span(const ring_trace_events *events, const ring_event *begin, uint64_t end,
                             bool ended, ring_trace_text *text) {
  bool call = begin->kind == RING_EVENT_CALL;
  char *to = ring_trace_text_reserve(text, TRACE_EVENT_BYTES);
  if (to == NULL) return;
  to = trace_event_begin(to, events, call ? ring_event_collective(begin) : "wait",
                         call ? "\"cat\":\"call\",\"ph\":\"X\"" : "\"cat\":\"wait\",\"ph\":\"X\"",
                         begin->time);
  to = trace_event_word(to, ",\"dur\":");
  to = trace_event_time(to, (int64_t)(end - begin->time));
  to = trace_event_field(to, ",\"args\":{\"call\":", begin->sequence);
  if (call) to = trace_event_field(to, ",\"bytes\":", begin->bytes);
  if (begin->peer >= 0) to = trace_event_field(to, ",\"peer\":", (uint64_t)begin->peer);
  if (!ended) to = trace_event_word(to, ",\"unfinished\":true");
  to = trace_event_word(to, "}}");
  text->length = (size_t)(to - text->bytes);
}

/* The begin or the end of what overlaps others of its kind. */
static void trace_event_nestable(const ring_trace_events *events, const ring_event *event,
                                 const char *name, const char *category, ring_trace_text *text) {
  char *to = ring_trace_text_reserve(text, TRACE_EVENT_BYTES);
  if (to == NULL) return;
  bool frame = event->kind == RING_EVENT_FRAME;
  uint64_t id = frame ? (uint64_t)event->peer : event->sequence;
  to = trace_event_begin(to, events, name, category, event->time);
  to = trace_event_word(to, event->begins ? ",\"ph\":\"b\"" : ",\"ph\":\"e\"");
  to = trace_event_field(to, ",\"id\":", id);
  to = trace_event_field(to, ",\"args\":{\"call\":", event->sequence);
  to = trace_event_field(to, ",\"bytes\":", event->bytes);
  if (frame) to = trace_event_field(to, ",\"peer\":", (uint64_t)event->peer);
  to = trace_event_word(to, "}}");
  text->length = (size_t)(to - text->bytes);
}

void ring_trace_event_add_mark(const ring_trace_events *events, const char *name, uint64_t time,
                               ring_trace_text *text) {
  char *to = ring_trace_text_reserve(text, TRACE_EVENT_BYTES);
  if (to == NULL) return;
  to = trace_event_begin(to, events, name, "\"cat\":\"mark\",\"ph\":\"i\",\"s\":\"p\"", time);
  *to++ = '}';
  text->length = (size_t)(to - text->bytes);
}

/* An end whose begin was overwritten has no line. */
static void trace_event_pair(const ring_trace_events *events, ring_trace_open *open,
                             const ring_event *event, ring_trace_text *text) {
  if (!event->begins && open->is_open && open->begin.sequence == event->sequence)
    trace_event_span(events, &open->begin, event->time, true, text);
  open->is_open = event->begins;
  open->begin = *event;
}

void ring_trace_event_add(ring_trace_events *events, const ring_event *event,
                          ring_trace_text *text) {
  switch ((ring_event_kind)event->kind) {
  case RING_EVENT_CALL:
    trace_event_pair(events, &events->call, event, text);
    break;
  case RING_EVENT_WAIT:
    trace_event_pair(events, &events->wait, event, text);
    break;
  case RING_EVENT_FRAME:
    trace_event_nestable(events, event, "frame", "\"cat\":\"frame\"", text);
    break;
  case RING_EVENT_QUEUE:
    trace_event_nestable(events, event, "QUEUE", "\"cat\":\"queue\"", text);
    break;
  case RING_EVENT_NEGOTIATE:
    trace_event_nestable(events, event, "NEGOTIATE", "\"cat\":\"negotiate\"", text);
    break;
  case RING_EVENT_CYCLE:
    if (events->cycles) ring_trace_event_add_mark(events, "CYCLE_START", event->time, text);
    break;
  }
}

void ring_trace_event_add_open(const ring_trace_events *events, uint64_t now,
                               ring_trace_text *text) {
  if (events->call.is_open) trace_event_span(events, &events->call.begin, now, false, text);
  if (events->wait.is_open) trace_event_span(events, &events->wait.begin, now, false, text);
}
