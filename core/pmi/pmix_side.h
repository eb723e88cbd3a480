/* SPDX-License-Identifier: Apache-2.0
 *
 * The PMIx side of a rank's server. On the lead of a host it is connected to the host's PMIx server: it passes requests
 * of all programs of the host to the hub, and answers back. It reports the state of each program to the rank of the
 * program. No function waits. pmix_start.h opens and ends a side.
 */
#ifndef RING_PMI_PMIX_SIDE_H
#define RING_PMI_PMIX_SIDE_H

#include "pmi/pmix_control.h"
#include "pmi/pmix_process.h"

/* A receive for the reply of a rank of this host, which was sent a state. */
typedef struct ring_pmix_reply {
  struct ring_pmix_reply *next;
  ring_transfer *receive;
} ring_pmix_reply;

/* A new state of this rank's program. */
typedef struct ring_pmix_news {
  bool has;
  ring_pmi_state state;
  int exit_code;
  uint64_t ticket;
} ring_pmix_news;

/* Strings, one behind another, each with its end. */
typedef struct ring_pmix_strings {
  char *bytes; /* NULL: none */
  size_t length;
} ring_pmix_strings;

typedef struct ring_pmix_side {
  bool served;                     /* on all hosts */
  char problem[RING_PMIX_PROBLEM]; /* why it is not; of all ranks alike, once the links are open */
  int rank, size, lead, host;
  ring_messages *messages;       /* NULL: the side is not begun, or has ended */
  ring_hub *control;             /* of the rank's server, by which it sends */
  ring_pmix_strings environment; /* of this rank's program */
  ring_transfer *receive;        /* from the lead; NULL on a lead */
  ring_pmix_news news;

  /* Of a lead. */
  ring_pmix_process process;
  ring_pmix_strings *environments; /* by rank, until all ranks have theirs */
  ring_pmix_reply *replies;        /* one receive from any rank would open links to all */
} ring_pmix_side;

/* Posts the receive. RING_OK, or *error: no memory, or why the messages have failed. */
ring_status ring_pmix_side_begin(ring_pmix_side *side, ring_error *error);

/* Handles requests and control messages until there is a new state of this rank's program. RING_OK, or *error: why
 * the servers have to end. *moved becomes true when there was something. */
ring_status ring_pmix_side_turn(ring_pmix_side *side, bool *moved, ring_error *error);

/* The new state is shown: the program may go on. */
ring_status ring_pmix_side_known(ring_pmix_side *side, ring_error *error);

/* Whether a payload of this kind from the hub is for this side. */
bool ring_pmix_side_takes(char kind);
ring_status ring_pmix_side_take(ring_pmix_side *side, char kind, const char *bytes, size_t length,
                                ring_error *error);

#endif
