/* SPDX-License-Identifier: Apache-2.0
 *
 * The hub: what rank 0 does for all ranks. It gathers the pairs of a fence and sends them to all, answers the
 * name service, and counts the programs that have ended. A receive of any rank is always posted: while nothing
 * else happens, it fails when a rank does.
 */
#ifndef RING_PMI_HUB_H
#define RING_PMI_HUB_H

#include "pmi/key_values.h"
#include "pmi/pmi_outbox.h"
#include "pmi/pmi_protocol.h"

/* What the hub has from one rank. */
typedef struct ring_hub_rank {
  ring_pmi_payload *pairs; /* of the fence that the rank waits in; NULL: it waits in none */
  bool ended;
} ring_hub_rank;

typedef struct ring_hub {
  int size, fenced, ended; /* ranks that wait in the fence, that have ended */
  ring_hub_rank *ranks;    /* NULL: this rank has no hub */
  ring_key_values names;
  ring_transfer *receive;
  ring_pmi_outbox outbox;
  ring_pmi_line line;
} ring_hub;

/* False without memory, and when the messages have failed. */
bool ring_hub_begin(ring_hub *hub, ring_messages *messages, int size);

/* Handles what has come. RING_OK, or *error says why the servers have to end: its status is not RING_OK where
 * the hub finds the fault, and RING_OK where the messages have failed. *moved: whether something had come. */
ring_status ring_hub_turn(ring_hub *hub, bool *moved, ring_error *error);

/* Frees everything. Waits for what is being sent. */
void ring_hub_end(ring_hub *hub);

#endif
