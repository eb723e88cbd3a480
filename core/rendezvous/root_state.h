/* SPDX-License-Identifier: Apache-2.0
 *
 * What rank 0 knows.
 */
#ifndef RING_RENDEZVOUS_ROOT_STATE_H
#define RING_RENDEZVOUS_ROOT_STATE_H

#include "peers/peers.h"
#include "rendezvous/address_table.h"
#include "rendezvous/message.h"

typedef enum root_stage {
  ROOT_ABSENT,
  ROOT_CONNECTED,
  ROOT_WITHDRAWN, /* it cannot join, and says or has said why */
  ROOT_JOINED,
  ROOT_INFORMED
} root_stage;

typedef struct root_client {
  int fd; /* -1: not there */
  root_stage stage;
  bool unlike; /* was sent away: it does not want the same encryption */
  bool failed; /* has said why it cannot join */
  size_t have; /* bytes of its JOIN */
  uint8_t join[RING_JOIN_BYTES + RING_SEAL_BYTES];
  ring_seal seal;
  ring_partial_message partial; /* of its REPORT */
  uint64_t deadline;            /* when it gives up */
  uint64_t lost;                /* when it went away after it had come; 0: it has not */
  size_t slot;
} root_client;

typedef struct root_state {
  const ring_rendezvous *rendezvous;
  ring_peers *peers;
  root_stage goal;
  int reached;                      /* arrivals that have reached the goal */
  root_client *clients;             /* by rank; that of rank 0 is not used */
  ring_acceptor acceptor;           /* until all have joined */
  ring_address_table address_table; /* from then on */
  ring_poll_set poll_set;
  ring_poll_set message_poll_set; /* of messages */
  ring_error report;              /* of the last one that failed */
  bool starved;                   /* of memory, to answer a rank that has proved itself */
  bool confirming;                /* has begun to tell the ranks that the job has formed */
  uint64_t polled;                /* when all arrivals were last looked at */
  uint64_t grace_ends; /* when it ends with those who are there, once one disagreed or failed */
} root_state;

#endif
