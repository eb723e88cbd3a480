/* SPDX-License-Identifier: Apache-2.0
 *
 * Control messages in a star, with rank 0 in its middle. An end of the star has one receive that is always posted: on
 * rank 0 from any rank, else from rank 0. The receive fails when any rank fails, also while no control message comes.
 * An end keeps the payload of a control message until it is sent. Several control messages may share a payload.
 *
 * One thread at a time uses an end. Only ring_hub_end waits.
 */
#ifndef RING_HUB_HUB_H
#define RING_HUB_HUB_H

#include <stddef.h>

#include "sparkring.h"

typedef struct ring_hub_payload {
  size_t references, length;
  char bytes[];
} ring_hub_payload;

typedef struct ring_hub_sending {
  struct ring_hub_sending *next;
  ring_transfer *transfer;
  ring_hub_payload *payload;
} ring_hub_sending;

/* An end of the star. */
typedef struct ring_hub {
  ring_messages *messages;
  int source, tag;           /* of the control messages that come */
  ring_transfer *receive;    /* NULL: none is posted */
  ring_hub_sending *sending; /* the newest first */
} ring_hub;

/* A control message that has come. The caller frees the bytes with ring_free. */
typedef struct ring_hub_message {
  int source;
  size_t length;
  void *bytes; /* NULL: there are none */
} ring_hub_message;

typedef enum ring_hub_arrival {
  RING_HUB_NOTHING,
  RING_HUB_MESSAGE,
  RING_HUB_FAILURE
} ring_hub_arrival;

/* Begins an end, and posts its receive. RING_OK, or *error: why the messages have failed. */
ring_status ring_hub_begin(ring_hub *hub, ring_messages *messages, int source, int tag,
                           ring_error *error);

/* Posts the receive again, after each message. RING_OK, or *error. */
ring_status ring_hub_post(ring_hub *hub, ring_error *error);

/* Looks at the receive, which a message or a failure ends. RING_HUB_FAILURE sets *error: why the messages have failed,
 * or why the receive alone has. Frees what was sent. */
ring_hub_arrival ring_hub_receive(ring_hub *hub, ring_hub_message *message, ring_error *error);

/* Moves messages: before a look of an owner that no completion wakes. */
void ring_hub_move(const ring_hub *hub);

/* Looks at another receive (ring_messages_take_start), and frees it unless nothing has come. */
ring_hub_arrival ring_hub_take(ring_transfer **receive, ring_hub_message *message,
                               ring_error *error);

/* A payload of `length` bytes, with one reference; NULL without memory. */
ring_hub_payload *ring_hub_payload_make(size_t length);
void ring_hub_payload_drop(ring_hub_payload *payload);

/* Starts to send. RING_OK, or *error: no memory, or why the messages have failed. */
ring_status ring_hub_share(ring_hub *hub, ring_hub_payload *payload, int peer, int tag,
                           ring_error *error);

/* The same, and drops the payload. A payload of NULL is one for which there was no memory. */
ring_status ring_hub_send(ring_hub *hub, ring_hub_payload *payload, int peer, int tag,
                          ring_error *error);

/* The same to all ranks from `first` on. */
ring_status ring_hub_send_all(ring_hub *hub, ring_hub_payload *payload, int first, int tag,
                              ring_error *error);

/* Cancels the receive, and waits until everything is sent or the messages have failed. */
void ring_hub_end(ring_hub *hub);

#endif
