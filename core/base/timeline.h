/* SPDX-License-Identifier: Apache-2.0
 *
 * The timeline of a communicator: a ring buffer with the begin and the end of its calls, waits and frames.
 * It exists while the user has switched it on; a NULL timeline records nothing, which costs one comparison.
 * Several threads may record, and one may read meanwhile: an event that is overwritten during its read is
 * skipped. A full buffer overwrites its oldest events.
 */
#ifndef RING_BASE_TIMELINE_H
#define RING_BASE_TIMELINE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/call.h"

enum { RING_TIMELINE_WORDS = 4 }; /* that an event packs into */

typedef struct ring_timeline_slot {
  _Atomic uint64_t number; /* of its event, from 1 on; 0: none yet, UINT64_MAX: in writing */
  _Atomic uint64_t words[RING_TIMELINE_WORDS];
} ring_timeline_slot;

typedef struct ring_timeline {
  size_t capacity;       /* a power of two */
  _Atomic uint64_t next; /* the number of events so far */
  ring_timeline_slot slots[];
} ring_timeline;

/* A timeline of the last `events` events, rounded up to a power of two, at least 64. NULL without memory. */
ring_timeline *ring_timeline_new(size_t events);

/* Writes an event; ring_timeline_record is what callers use. */
void ring_timeline_write(ring_timeline *timeline, ring_event_kind kind, bool begins,
                         const ring_call *call, int peer, uint64_t bytes);

/* Records that a call, a wait or a frame begins or ends now. peer: the other rank, or -1. */
static inline void ring_timeline_record(ring_timeline *timeline, ring_event_kind kind, bool begins,
                                        const ring_call *call, int peer, uint64_t bytes) {
  if (__builtin_expect(timeline != NULL, 0))
    ring_timeline_write(timeline, kind, begins, call, peer, bytes);
}

/* Copies events from number *from on, `most` at most, and moves *from behind the last one. Events that were
 * overwritten are left out. An event that is still being written ends the copy, and is in the next one.
 * Returns how many were copied. */
size_t ring_timeline_read(const ring_timeline *timeline, uint64_t *from, ring_event *events,
                          size_t most);

#endif
