/* SPDX-License-Identifier: Apache-2.0 */
#include "base/timeline.h"

#include <sched.h>
#include <stdlib.h>

#include "base/platform.h"

#define TIMELINE_LEAST 64
#define TIMELINE_MOST ((size_t)1 << 24)
#define TIMELINE_BUSY UINT64_MAX /* the number of a slot that is being written */

ring_timeline *ring_timeline_new(size_t events) {
  size_t capacity = TIMELINE_LEAST;
  while (capacity < events && capacity < TIMELINE_MOST) capacity *= 2;
  ring_timeline *timeline = calloc(1, sizeof *timeline + capacity * sizeof timeline->slots[0]);
  if (timeline != NULL) timeline->capacity = capacity;
  return timeline;
}

/* An event as words: time, bytes, sequence and peer, and the small fields. */
static void timeline_pack(const ring_event *event, uint64_t words[RING_TIMELINE_WORDS]) {
  words[0] = event->time;
  words[1] = event->bytes;
  words[2] = event->sequence | (uint64_t)(uint32_t)event->peer << 32;
  words[3] =
      (uint64_t)event->kind | (uint64_t)event->begins << 8 | (uint64_t)event->collective << 16;
}

static ring_event timeline_unpack(const uint64_t words[RING_TIMELINE_WORDS]) {
  return (ring_event){.time = words[0],
                      .bytes = words[1],
                      .sequence = (uint32_t)words[2],
                      .peer = (int32_t)(uint32_t)(words[2] >> 32),
                      .kind = (uint8_t)words[3],
                      .begins = (uint8_t)(words[3] >> 8),
                      .collective = (uint8_t)(words[3] >> 16)};
}

/* Takes the slot of this event. Waits while another thread still writes the event of a round before: otherwise
 * the slot would hold words of both. */
static ring_timeline_slot *timeline_take(ring_timeline *timeline, uint64_t number) {
  ring_timeline_slot *slot = &timeline->slots[(number - 1) & (timeline->capacity - 1)];
  uint64_t last = number > timeline->capacity ? number - timeline->capacity : 0;
  while (atomic_load_explicit(&slot->number, memory_order_acquire) != last) sched_yield();
  atomic_store_explicit(&slot->number, TIMELINE_BUSY, memory_order_relaxed);
  return slot;
}

void ring_timeline_write(ring_timeline *timeline, ring_event_kind kind, bool begins,
                         const ring_call *call, int peer, uint64_t bytes) {
  const ring_event event = {.time = ring_platform_now(),
                            .bytes = bytes,
                            .sequence = call->sequence,
                            .peer = peer,
                            .kind = (uint8_t)kind,
                            .begins = begins,
                            .collective = call->collective};
  uint64_t words[RING_TIMELINE_WORDS];
  timeline_pack(&event, words);
  uint64_t number = atomic_fetch_add_explicit(&timeline->next, 1, memory_order_relaxed) + 1;
  ring_timeline_slot *slot = timeline_take(timeline, number);
  /* A reader that sees a word of this event also sees that the number has changed. */
  for (int i = 0; i < RING_TIMELINE_WORDS; i++)
    atomic_store_explicit(&slot->words[i], words[i], memory_order_release);
  atomic_store_explicit(&slot->number, number, memory_order_release);
}

/* Copies the event with this number; false when it has been overwritten, or is being written. */
static bool timeline_copy(const ring_timeline *timeline, uint64_t number, ring_event *event) {
  const ring_timeline_slot *slot = &timeline->slots[(number - 1) & (timeline->capacity - 1)];
  uint64_t words[RING_TIMELINE_WORDS];
  if (atomic_load_explicit(&slot->number, memory_order_acquire) != number) return false;
  for (int i = 0; i < RING_TIMELINE_WORDS; i++)
    words[i] = atomic_load_explicit(&slot->words[i], memory_order_acquire);
  *event = timeline_unpack(words);
  return atomic_load_explicit(&slot->number, memory_order_relaxed) == number;
}

/* Whether the slot of the event after number `from` belongs to a later event. */
static bool timeline_is_overwritten(const ring_timeline *timeline, uint64_t from) {
  return atomic_load_explicit(&timeline->next, memory_order_acquire) - from > timeline->capacity;
}

size_t ring_timeline_read(const ring_timeline *timeline, uint64_t *from, ring_event *events,
                          size_t most) {
  uint64_t next = atomic_load_explicit(&timeline->next, memory_order_acquire);
  size_t count = 0;
  if (next > timeline->capacity && *from < next - timeline->capacity)
    *from = next - timeline->capacity;
  for (; *from < next && count < most; (*from)++) {
    if (timeline_copy(timeline, *from + 1, &events[count]))
      count++;
    else if (!timeline_is_overwritten(timeline, *from))
      break; /* a writer has its number, and is not finished */
  }
  return count;
}
