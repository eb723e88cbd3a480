/* SPDX-License-Identifier: Apache-2.0
 *
 * The hub of PMI: the part of rank 0 that serves all ranks. It gathers the pairs of a fence and sends them to all
 * ranks, answers the name service, and counts the programs that have ended.
 */
#ifndef RING_PMI_PMI_HUB_H
#define RING_PMI_PMI_HUB_H

#include "pmi/key_values.h"
#include "pmi/pmi_control.h"
#include "pmi/pmi_protocol.h"
#include "pmi/pmix_hub.h"

/* The state of one rank. */
typedef struct ring_pmi_hub_rank {
  ring_hub_payload *pairs; /* of the fence that the rank waits in; NULL: it waits in none */
  bool ended;
  bool silent;     /* it has ended without a call of MPI_Init, as far as its rank knew */
  uint64_t judged; /* when a silent program is held for one that never called MPI_Init */
} ring_pmi_hub_rank;

typedef struct ring_pmi_hub {
  int size, fenced, ended;  /* ranks that wait in the fence, that have ended */
  ring_pmi_hub_rank *ranks; /* NULL: this rank has no hub */
  ring_key_values names;
  ring_hub control; /* with all ranks */
  ring_pmi_line line;
  ring_pmix_hub pmix;
  uint64_t due; /* of the next look at silent programs; 0: there are none */
} ring_pmi_hub;

/* `nodes`: the host of each rank. RING_OK, or *error: no memory, or why the messages have failed. */
ring_status ring_pmi_hub_begin(ring_pmi_hub *hub, ring_messages *messages, const int *nodes,
                               int size, ring_error *error);

/* Handles a control message. RING_OK, or *error: why the servers have to end. *moved becomes true when there was
 * a control message. */
ring_status ring_pmi_hub_turn(ring_pmi_hub *hub, bool *moved, ring_error *error);

/* Frees everything. Waits for what is being sent. */
void ring_pmi_hub_end(ring_pmi_hub *hub);

#endif
