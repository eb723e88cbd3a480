/* SPDX-License-Identifier: Apache-2.0
 *
 * Control messages between rank 0 and the other ranks, over the connection of the handshake.
 *
 *   JOIN      port u16, milliseconds left u32; sealed (seal.h). Port 0: the rank cannot join, and a
 *             REPORT with the reason follows
 *   message   length u32 of the rest, which is sealed: status u8, rank at fault i32; then the error
 *             message if the status is not RING_OK, else the body
 *   WELCOME   a message: epoch u64, parent's port u16, parent's host: length u8, text
 *   REPORT    a message without a body: the rank has the address table, or why not. A rank that fails
 *             before the WELCOME sends it earlier
 *   RESULT    a message without a body: the job has formed, or why not
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

typedef struct ring_message {
  ring_status status;
  int fault; /* rank at fault, or -1 */
  size_t length;
  uint8_t body[RING_MESSAGE_TEXT_BYTES];
} ring_message;

/* A message that has been received in part. Begins as zeros. */
typedef struct ring_partial_message {
  uint8_t head[RING_MESSAGE_LENGTH_BYTES];
  uint8_t *wire; /* NULL until the length is known */
  size_t length, have;
} ring_partial_message;

/* Sends or receives `length` bytes before the deadline of the rendezvous. RING_PEER_LOST when the
 * connection ends. */
ring_status ring_message_transfer(const ring_rendezvous *rendezvous, ring_poll_set *poll_set,
                                  int fd, bool sending, void *bytes, size_t length);

/* Sends or receives a message before the deadline. RING_PEER_LOST also for a message that cannot be
 * read, RING_AUTH for bytes that were changed on the way, RING_NO_MEMORY. */
ring_status ring_message_send(const ring_rendezvous *rendezvous, ring_poll_set *poll_set, int fd,
                              ring_seal *seal, const ring_message *message);
ring_status ring_message_receive(const ring_rendezvous *rendezvous, ring_poll_set *poll_set, int fd,
                                 ring_seal *seal, ring_message *message);

/* Receives without blocking. RING_BUSY while the message is not complete, else as
 * ring_message_receive. */
ring_status ring_message_receive_part(const ring_rendezvous *rendezvous, int fd, ring_seal *seal,
                                      ring_partial_message *partial, ring_message *message);

/* Frees a message that has been received in part, and makes it zeros. */
void ring_message_drop_part(ring_partial_message *partial);

#endif
