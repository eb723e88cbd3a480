/* SPDX-License-Identifier: Apache-2.0
 *
 * Matching: receives that wait for a message, and messages that wait for a receive. A message matches the
 * receive that was posted first among those that take it; a receive matches the message that came first. So
 * messages of two ranks never overtake each other. Data only: nothing is sent or copied here.
 */
#ifndef RING_MESSAGES_MATCHING_H
#define RING_MESSAGES_MATCHING_H

#include "messages/transfer.h"

/* A message that has matched no receive. */
typedef struct ring_arrival {
  struct ring_arrival *next;
  int source, tag;
  ring_dtype dtype;
  uint64_t bytes, number;
  uint64_t stamp;        /* order of the arrivals */
  bool requested;        /* its payload waits at the sender */
  bool whole;            /* else the payload is still coming */
  ring_transfer *taker;  /* the receive that it matched before it was whole */
  ring_transfer *sender; /* of a long message of this rank to itself */
  uint8_t payload[];
} ring_arrival;

typedef struct ring_arrival_queue {
  ring_arrival *first, **end;
} ring_arrival_queue;

typedef struct ring_matching {
  int size;
  ring_transfer_queue *posted;  /* by source; the last one: from any */
  ring_arrival_queue *arrivals; /* by source */
  uint64_t stamp;
} ring_matching;

/* False without memory. */
bool ring_matching_init(ring_matching *matching, int size);
void ring_matching_destroy(ring_matching *matching);

/* Forgets all receives, and frees all messages. */
void ring_matching_clear(ring_matching *matching);

/* An arrival with room for a payload. NULL without memory. */
ring_arrival *ring_arrival_make(int source, const ring_message_frame *frame, size_t payload);

void ring_matching_post(ring_matching *matching, ring_transfer *receive);
void ring_matching_keep(ring_matching *matching, ring_arrival *arrival);

/* Removes the receive that a message matches; NULL: none. */
ring_transfer *ring_matching_take_receive(ring_matching *matching, int source, int tag);

/* The message that a receive matches; NULL: none. take removes it. */
const ring_arrival *ring_matching_find(const ring_matching *matching, int source, int tag);
ring_arrival *ring_matching_take(ring_matching *matching, int source, int tag);

/* Removes a receive that was posted. False when it has matched a message. */
bool ring_matching_withdraw(ring_matching *matching, const ring_transfer *receive);

/* The first receive from `source` exactly, RING_ANY_SOURCE: from any; NULL: none. */
ring_transfer *ring_matching_first_posted(const ring_matching *matching, int source);

#endif
