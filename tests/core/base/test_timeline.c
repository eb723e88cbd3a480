/* SPDX-License-Identifier: Apache-2.0
 *
 * The timeline as a ring buffer: events come back in order and whole, the oldest are overwritten, and a
 * reader beside writers sees no mixture of two events.
 */
#include "base/timeline.h"

#include <pthread.h>
#include <stdlib.h>

#include "check.h"

static void test_events_come_back_in_order(void) {
  const ring_call call = {.collective = RING_COLLECTIVE_ALLREDUCE, .sequence = 7};
  ring_timeline *timeline = ring_timeline_new(1);
  ring_event events[8];
  uint64_t from = 0;
  CHECK_INT(timeline->capacity, 64);
  ring_timeline_record(timeline, RING_EVENT_CALL, true, &call, -1, 400);
  ring_timeline_record(timeline, RING_EVENT_FRAME, true, &call, 3, 100);
  ring_timeline_record(timeline, RING_EVENT_CALL, false, &call, -1, 400);
  CHECK_INT(ring_timeline_read(timeline, &from, events, 2), 2);
  CHECK_INT(events[0].kind, RING_EVENT_CALL);
  CHECK_INT(events[0].begins, 1);
  CHECK_INT(events[0].peer, -1);
  CHECK_INT(events[0].sequence, 7);
  CHECK_INT(events[0].collective, RING_COLLECTIVE_ALLREDUCE);
  CHECK_INT(events[1].kind, RING_EVENT_FRAME);
  CHECK_INT(events[1].peer, 3);
  CHECK_INT(events[1].bytes, 100);
  CHECK(events[1].time >= events[0].time);
  CHECK_INT(ring_timeline_read(timeline, &from, events, 8), 1);
  CHECK_INT(events[0].begins, 0);
  CHECK_INT(ring_timeline_read(timeline, &from, events, 8), 0);
  free(timeline);
}

static void test_a_timeline_that_is_off_records_nothing(void) {
  ring_timeline_record(NULL, RING_EVENT_WAIT, true, NULL, 0, 0);
}

static void test_the_oldest_events_are_overwritten(void) {
  ring_call call = {.collective = RING_COLLECTIVE_BARRIER};
  ring_timeline *timeline = ring_timeline_new(64);
  ring_event events[64];
  uint64_t from = 0;
  for (call.sequence = 1; call.sequence <= 100; call.sequence++)
    ring_timeline_record(timeline, RING_EVENT_CALL, true, &call, -1, 0);
  CHECK_INT(ring_timeline_read(timeline, &from, events, 64), 64);
  CHECK_INT(events[0].sequence, 37);
  CHECK_INT(events[63].sequence, 100);
  free(timeline);
}

enum { EVENTS = 200000 };

/* Records events whose fields have the same number. */
static void *record(void *timeline) {
  ring_call call = {.collective = RING_COLLECTIVE_BARRIER};
  for (call.sequence = 1; call.sequence <= EVENTS; call.sequence++)
    ring_timeline_record(timeline, RING_EVENT_WAIT, true, &call, (int)call.sequence, call.sequence);
  return NULL;
}

static void test_a_reader_beside_two_writers_sees_whole_events(void) {
  ring_timeline *timeline = ring_timeline_new(64);
  pthread_t writers[2];
  ring_event events[64];
  uint64_t from = 0;
  size_t seen = 0;
  for (int i = 0; i < 2; i++) CHECK_INT(pthread_create(&writers[i], NULL, record, timeline), 0);
  while (from < 2 * EVENTS) {
    size_t count = ring_timeline_read(timeline, &from, events, 64);
    for (size_t i = 0; i < count; i++) {
      CHECK_INT(events[i].peer, events[i].sequence);
      CHECK_INT(events[i].bytes, events[i].sequence);
    }
    seen += count;
  }
  for (int i = 0; i < 2; i++) pthread_join(writers[i], NULL);
  CHECK(seen > 0);
  free(timeline);
}

int main(void) {
  RUN(test_events_come_back_in_order);
  RUN(test_a_timeline_that_is_off_records_nothing);
  RUN(test_the_oldest_events_are_overwritten);
  RUN(test_a_reader_beside_two_writers_sees_whole_events);
  return 0;
}
