/* SPDX-License-Identifier: Apache-2.0
 *
 * Control messages between the server of each rank and rank 0. The outbox keeps the payload of a control message
 * until it is sent. Several control messages may share a payload.
 */
#ifndef RING_PMI_PMI_OUTBOX_H
#define RING_PMI_PMI_OUTBOX_H

#include <stddef.h>

#include "sparkring.h"

/* The first byte of a payload. */
typedef enum ring_pmi_kind {
  RING_PMI_CONTROL_NONE = 0,
  RING_PMI_CONTROL_FENCE = 'f', /* pairs of one rank; of all ranks */
  RING_PMI_CONTROL_NAME = 'n',  /* a line of the name service; its answer */
  RING_PMI_CONTROL_END = 'e'    /* the program has ended; all programs have */
} ring_pmi_kind;

/* Tags: to rank 0 as the hub, from the hub, and of the barrier that opens the links (pmi_links.h). */
enum { RING_PMI_TO_HUB = 0, RING_PMI_FROM_HUB = 1, RING_PMI_LINKS = 2 };

typedef struct ring_pmi_payload {
  size_t references, length;
  char bytes[];
} ring_pmi_payload;

typedef struct ring_pmi_sending {
  struct ring_pmi_sending *next;
  ring_transfer *transfer;
  ring_pmi_payload *payload;
} ring_pmi_sending;

typedef struct ring_pmi_outbox {
  ring_messages *messages;
  ring_pmi_sending *first;
} ring_pmi_outbox;

/* A payload with room for `length` bytes behind its kind, and one reference; NULL without memory. */
ring_pmi_payload *ring_pmi_payload_make(ring_pmi_kind kind, size_t length);
void ring_pmi_payload_drop(ring_pmi_payload *payload);

/* Starts to send. RING_OK, or *error: no memory, or why the messages have failed. */
ring_status ring_pmi_outbox_send(ring_pmi_outbox *outbox, ring_pmi_payload *payload, int peer,
                                 int tag, ring_error *error);

/* Makes a payload of the bytes and sends it. */
ring_status ring_pmi_outbox_post(ring_pmi_outbox *outbox, ring_pmi_kind kind, const void *bytes,
                                 size_t length, int peer, int tag, ring_error *error);

/* Frees what is sent. */
void ring_pmi_outbox_sweep(ring_pmi_outbox *outbox);

/* Waits until everything is sent, or the messages have failed. */
void ring_pmi_outbox_finish(ring_pmi_outbox *outbox);

#endif
