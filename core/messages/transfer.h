/* SPDX-License-Identifier: Apache-2.0
 *
 * A transfer: a send or a receive of this rank, until the user frees it. Records are reused.
 *
 * The field `done` is set last; every other field belongs to the mutex of the messages before that.
 */
#ifndef RING_MESSAGES_TRANSFER_H
#define RING_MESSAGES_TRANSFER_H

#include <stdatomic.h>
#include <stdbool.h>

#include "messages/message_frame.h"

/* A frame that is to be sent. The payload of a short message lies behind the packet. The packet in a
 * transfer carries one piece of its payload after another. */
typedef struct ring_packet {
  struct ring_packet *next;
  ring_transfer *transfer; /* NULL: the packet is to be freed when it is sent */
  const uint8_t *payload;
  ring_message_frame frame;
  size_t sent; /* of header and payload */
  uint8_t header[RING_HEADER_BYTES];
} ring_packet;

struct ring_transfer {
  ring_messages *messages;
  ring_transfer *next;          /* in the one queue that it is in, or of the spare ones */
  ring_transfer *newer, *older; /* of those that are not done */
  atomic_bool done;
  bool sends;
  bool takes; /* a receive of any dtype and length */
  ring_status status;
  ring_error *error; /* NULL: none */
  int peer, tag;     /* wanted */
  ring_dtype dtype;
  uint8_t *memory;        /* of the user, or `output` */
  uint64_t bytes, moved;  /* bytes: of the message; of a receive without one: of the buffer */
  uint64_t number;        /* of the message, among the long ones of its two ranks */
  uint64_t stamp;         /* order of the posts */
  ring_message_info info; /* of a receive that has a message */
  void *output;           /* that the library has allocated */
  ring_packet packet;
};

/* A queue of transfers, first in, first out. */
typedef struct ring_transfer_queue {
  ring_transfer *first, **end;
} ring_transfer_queue;

static inline void transfer_append(ring_transfer_queue *queue, ring_transfer *transfer) {
  transfer->next = NULL;
  *queue->end = transfer;
  queue->end = &transfer->next;
}

/* Removes the transfer that *at points to. */
static inline ring_transfer *transfer_remove(ring_transfer_queue *queue, ring_transfer **at) {
  ring_transfer *transfer = *at;
  *at = transfer->next;
  if (queue->end == &transfer->next) queue->end = at;
  return transfer;
}

static inline void transfer_queue_clear(ring_transfer_queue *queue) {
  queue->first = NULL;
  queue->end = &queue->first;
}

static inline bool transfer_is_done(const ring_transfer *transfer) {
  return atomic_load_explicit(&transfer->done, memory_order_acquire);
}

/* Makes a record, from a spare one where it is not NULL. NULL without memory. */
ring_transfer *ring_transfer_make(ring_transfer *spare);

/* Sets the result. `error` is NULL for success. */
void ring_transfer_complete(ring_transfer *transfer, const ring_error *error);

/* Frees what belongs to the result. */
void ring_transfer_clear(ring_transfer *transfer);

#endif
