/* SPDX-License-Identifier: Apache-2.0 */
#include "messages/matching.h"

#include <stdlib.h>

bool ring_matching_init(ring_matching *matching, int size) {
  *matching = (ring_matching){.size = size};
  matching->posted = calloc((size_t)size + 1, sizeof *matching->posted);
  matching->arrivals = calloc((size_t)size, sizeof *matching->arrivals);
  if (matching->posted == NULL || matching->arrivals == NULL) return false;
  for (int rank = 0; rank <= size; rank++) transfer_queue_clear(&matching->posted[rank]);
  for (int rank = 0; rank < size; rank++)
    matching->arrivals[rank].end = &matching->arrivals[rank].first;
  return true;
}

void ring_matching_clear(ring_matching *matching) {
  for (int rank = 0; rank <= matching->size; rank++) transfer_queue_clear(&matching->posted[rank]);
  for (int rank = 0; rank < matching->size; rank++) {
    ring_arrival_queue *queue = &matching->arrivals[rank];
    while (queue->first != NULL) {
      ring_arrival *arrival = queue->first;
      queue->first = arrival->next;
      free(arrival);
    }
    queue->end = &queue->first;
  }
}

void ring_matching_destroy(ring_matching *matching) {
  if (matching->posted != NULL && matching->arrivals != NULL) ring_matching_clear(matching);
  free(matching->posted);
  free(matching->arrivals);
  *matching = (ring_matching){0};
}

ring_arrival *ring_arrival_make(int source, const ring_message_frame *frame, size_t payload) {
  ring_arrival *arrival = malloc(sizeof *arrival + payload);
  if (arrival == NULL) return NULL;
  *arrival = (ring_arrival){.source = source,
                            .tag = frame->tag,
                            .dtype = (ring_dtype)frame->dtype,
                            .bytes = frame->bytes,
                            .number = frame->number};
  return arrival;
}

void ring_matching_post(ring_matching *matching, ring_transfer *receive) {
  int place = receive->peer == RING_ANY_SOURCE ? matching->size : receive->peer;
  receive->stamp = ++matching->stamp;
  transfer_append(&matching->posted[place], receive);
}

void ring_matching_keep(ring_matching *matching, ring_arrival *arrival) {
  ring_arrival_queue *queue = &matching->arrivals[arrival->source];
  arrival->stamp = ++matching->stamp;
  *queue->end = arrival;
  queue->end = &arrival->next;
}

static bool matching_takes(int wanted, int tag) {
  return wanted == RING_ANY_TAG || wanted == tag;
}

/* Finds the first receive of a queue that takes the tag. */
static ring_transfer **matching_posted_at(ring_transfer_queue *queue, int tag) {
  ring_transfer **at = &queue->first;
  while (*at != NULL && !matching_takes((*at)->tag, tag)) at = &(*at)->next;
  return at;
}

ring_transfer *ring_matching_take_receive(ring_matching *matching, int source, int tag) {
  ring_transfer_queue *exact = &matching->posted[source], *any = &matching->posted[matching->size];
  ring_transfer **one = matching_posted_at(exact, tag), **other = matching_posted_at(any, tag);
  if (*other == NULL && *one == NULL) return NULL;
  bool first = *other == NULL || (*one != NULL && (*one)->stamp < (*other)->stamp);
  return first ? transfer_remove(exact, one) : transfer_remove(any, other);
}

static ring_arrival **matching_arrival_at(ring_arrival_queue *queue, int tag) {
  ring_arrival **at = &queue->first;
  while (*at != NULL && !matching_takes(tag, (*at)->tag)) at = &(*at)->next;
  return at;
}

/* Finds the first message that the receive takes; NULL: there is none. */
static ring_arrival **matching_find(const ring_matching *matching, int source, int tag) {
  int first = source == RING_ANY_SOURCE ? 0 : source;
  int last = source == RING_ANY_SOURCE ? matching->size - 1 : source;
  ring_arrival **best = NULL;
  for (int rank = first; rank <= last; rank++) {
    ring_arrival **at = matching_arrival_at(&matching->arrivals[rank], tag);
    if (*at != NULL && (best == NULL || (*at)->stamp < (*best)->stamp)) best = at;
  }
  return best;
}

const ring_arrival *ring_matching_find(const ring_matching *matching, int source, int tag) {
  ring_arrival **at = matching_find(matching, source, tag);
  return at != NULL ? *at : NULL;
}

ring_arrival *ring_matching_take(ring_matching *matching, int source, int tag) {
  ring_arrival **at = matching_find(matching, source, tag);
  if (at == NULL) return NULL;
  ring_arrival *arrival = *at;
  ring_arrival_queue *queue = &matching->arrivals[arrival->source];
  *at = arrival->next;
  if (queue->end == &arrival->next) queue->end = at;
  arrival->next = NULL;
  return arrival;
}

bool ring_matching_withdraw(ring_matching *matching, const ring_transfer *receive) {
  int place = receive->peer == RING_ANY_SOURCE ? matching->size : receive->peer;
  ring_transfer_queue *queue = &matching->posted[place];
  ring_transfer **at = &queue->first;
  while (*at != NULL && *at != receive) at = &(*at)->next;
  if (*at == NULL) return false;
  transfer_remove(queue, at);
  return true;
}

ring_transfer *ring_matching_first_posted(const ring_matching *matching, int source) {
  return matching->posted[source == RING_ANY_SOURCE ? matching->size : source].first;
}
