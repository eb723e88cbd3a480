/* SPDX-License-Identifier: Apache-2.0
 *
 * The state of rank 0 in a rendezvous by addresses: each client's connection and stage. Data only;
 * root.h runs the rendezvous, root_report.h explains a failure.
 */
#ifndef RING_RENDEZVOUS_ROOT_STATE_H
#define RING_RENDEZVOUS_ROOT_STATE_H

#include "peers/peers.h"
#include "rendezvous/address_table.h"
#include "rendezvous/message.h"

typedef enum root_stage {
  ROOT_ABSENT,
  ROOT_CONNECTED,
  ROOT_WITHDRAWN, /* it cannot join; its REPORT has been or will be received */
  ROOT_JOINED,
  ROOT_INFORMED
} root_stage;

typedef struct root_client {
  int fd; /* -1: not connected */
  root_stage stage;
  bool unlike; /* was refused: its wish for encryption differs */
  bool failed; /* has reported why it cannot join */
  size_t have; /* bytes of its JOIN */
  uint8_t join[RING_JOIN_BYTES + RING_SEAL_BYTES];
  ring_seal seal;
  ring_partial_message partial; /* its REPORT */
  uint64_t deadline;            /* its own */
  uint64_t lost;                /* when its connection ended before all had joined; 0: it has not */
  size_t slot;
} root_client;

typedef struct root_state {
  const ring_rendezvous *rendezvous;
  ring_peers *peers;
  root_stage goal;
  int reached;                      /* clients that have reached the goal */
  root_client *clients;             /* by rank; that of rank 0 is not used */
  ring_acceptor acceptor;           /* until all have joined */
  ring_address_table address_table; /* from then on */
  ring_poll_set poll_set;
  ring_poll_set message_poll_set; /* while a message is sent */
  ring_error report;              /* of the client that failed last */
  bool starved;                   /* no memory to answer a client that has proved its rank */
  bool confirming;                /* has begun to send the result: the job has formed */
  uint64_t polled;                /* when all clients were last polled */
  uint64_t grace_ends;            /* once a client disagreed or failed: when to stop waiting */
} root_state;

#endif
