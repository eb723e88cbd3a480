/* SPDX-License-Identifier: Apache-2.0
 *
 * Control messages.
 */
#ifndef RING_RENDEZVOUS_MESSAGE_H
#define RING_RENDEZVOUS_MESSAGE_H

#include "auth/seal.h"
#include "base/poll_set.h"
#include "rendezvous/session.h"

enum {
  RING_JOIN_BYTES = 6,
  RING_MESSAGE_LENGTH_BYTES = 4,
  RING_MESSAGE_HEAD_BYTES = 5, /* status and rank at fault */
  RING_MESSAGE_TEXT_BYTES = sizeof(((ring_error *)0)->message)
};

/* What one side of the rendezvous tells the other. */
typedef struct ring_message {
  ring_status status;
  int fault; /* rank at fault, or -1 */
  size_t length;
  uint8_t body[RING_MESSAGE_TEXT_BYTES];
} ring_message;

/* A message that comes piece by piece; begins as zeros. */
typedef struct ring_partial_message {
  uint8_t head[RING_MESSAGE_LENGTH_BYTES];
  uint8_t *wire; /* NULL until its length is known */
  size_t length, have;
} ring_partial_message;

/* Sends or receives length bytes over a connection before the rendezvous's deadline. RING_PEER_LOST
 * when the connection ends. */
ring_status ring_message_transfer(const ring_rendezvous *rendezvous, ring_poll_set *poll_set,
                                  int fd, bool sending, void *bytes, size_t length);

/* The same with a message. RING_PEER_LOST for one that cannot be read, too, RING_AUTH for one that is
 * not what the other end has sent, and RING_NO_MEMORY. */
ring_status ring_message_send(const ring_rendezvous *rendezvous, ring_poll_set *poll_set, int fd,
                              ring_seal *seal, const ring_message *message);
ring_status ring_message_receive(const ring_rendezvous *rendezvous, ring_poll_set *poll_set, int fd,
                                 ring_seal *seal, ring_message *message);

/* Hears what has come of a message, without waiting for more of it: RING_BUSY when that is not all, else
 * what ring_message_receive returns. end frees what one that has begun holds, and makes it zeros. */
ring_status ring_message_receive_part(const ring_rendezvous *rendezvous, int fd, ring_seal *seal,
                                      ring_partial_message *partial, ring_message *message);
void ring_message_drop_part(ring_partial_message *partial);

#endif
