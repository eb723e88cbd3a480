/* SPDX-License-Identifier: Apache-2.0
 *
 * Rendezvous: from addresses to peers that are known to belong to the job.
 *
 * With an exchange, every rank listens first, tells its port, whether it wants encryption and its
 * public key (keys.h) through the exchange, and rank 0 adds the epoch. Without one, rank 0 binds
 * the first free port of a sequence derived from the job's key; the others walk the same sequence
 * on rank 0's host until a listener proves to be theirs, and tell it their own port (JOIN). When
 * all have, each is told the epoch and where its parent in the binomial tree of ranks is
 * (WELCOME); the table of all places then travels down the tree (address_table.h), over links that stay.
 * A rank that has it says so, or says what kept it from it (REPORT), and when all have it, or one
 * cannot, rank 0 tells everybody (VERDICT). So rank 0 moves a few bytes for each rank and the
 * table log2(size) times. Other links are opened later, when they are first used.
 *
 *   JOIN      port u16, milliseconds left u32; sealed (seal.h). Without a port, 0, the rank cannot
 *             join, and a REPORT follows that says why
 *   message      length u32 of what follows, which is sealed: status u8, rank at fault i32; then an
 *             explanation when the status is not RING_OK, else what is said below
 *   WELCOME   a message: epoch u64, parent's port u16, parent's host: length u8, text
 *   REPORT    a message: nothing. One that says what the rank lacks may also come before the WELCOME
 *   VERDICT   a message: nothing
 *
 * rendezvous.c has what both sides share and the exchange; root.c is rank 0's side of
 * the rendezvous by addresses, root_report.c what it says of one that does not come about,
 * client.c the others' until they have found rank 0, and join.c from there on.
 */
#ifndef RING_RENDEZVOUS_H
#define RING_RENDEZVOUS_H

#include "auth/seal.h"
#include "base/address.h"
#include "base/wait.h"
#include "peers/peers.h"

/* Ports tried for rank 0, at most. */
#define RING_RENDEZVOUS_PORTS 32

enum {
  RING_JOIN_BYTES = 6,
  RING_MESSAGE_LENGTH_BYTES = 4,
  RING_MESSAGE_HEAD_BYTES = 5, /* status and rank at fault */
  RING_MESSAGE_TEXT_BYTES = sizeof(((ring_error *)0)->message)
};

/* What a rank knows before it has met anybody. */
typedef struct ring_rendezvous {
  int rank, size;
  const char *const *hosts; /* by rank, or NULL when only root_host is known */
  const char *root_host;
  const char *job;
  const void *token;
  size_t token_length;
  uint16_t port_first, port_last; /* 0: not restricted */
  bool encrypted;
  ring_exchange_fn exchange;
  void *exchange_arg;
  ring_wait *wait;
  uint16_t ports[RING_RENDEZVOUS_PORTS]; /* see ring_rendezvous_begin */
  int port_count;
  bool awaited; /* it has failed, and others may wait for it in the first call */
} ring_rendezvous;

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

/* What all ranks of a job derive from what they know before: its key, and the ports for rank 0. */
bool ring_rendezvous_begin(ring_rendezvous *rendezvous, ring_keys *keys);

/* Meets the others: fills the places, keys and epoch of `peers` and opens its listener. */
ring_status ring_rendezvous_run(ring_rendezvous *rendezvous, ring_peers *peers, ring_error *error);

/* The two sides of the rendezvous by addresses. */
ring_status ring_rendezvous_root(ring_rendezvous *rendezvous, ring_peers *peers, ring_error *error);
ring_status ring_rendezvous_client(ring_rendezvous *rendezvous, ring_peers *peers,
                                   ring_error *error);

/* The other ranks' side from the moment on when rank 0 has opened at the other end of fd. With
 * error->status RING_OK a failure means that rank 0 went away before it said anything. */
ring_status ring_rendezvous_join(ring_rendezvous *rendezvous, ring_peers *peers, int fd,
                                 ring_seal *seal, ring_error *error);

/* Listens for links on a free port of the range, or on any. A descriptor, or -1 with *error set. */
int ring_rendezvous_listen(const ring_rendezvous *rendezvous, ring_error *error);

/* The port of that listener; or -1 with *error set. */
int ring_rendezvous_port(const ring_rendezvous *rendezvous, int listener, ring_error *error);

/* Tells the user of a rank other than 0 that its wait lasts, when that is due. */
void ring_rendezvous_warn(const ring_rendezvous *rendezvous);

/* Sends or receives length bytes over a connection before the rendezvous's deadline. RING_PEER_LOST
 * when the connection ends. */
ring_status ring_rendezvous_transfer(const ring_rendezvous *rendezvous, ring_poll_set *poll_set,
                                     int fd, bool sending, void *bytes, size_t length);

/* The same with a message. RING_PEER_LOST for one that cannot be read, too, RING_AUTH for one that is
 * not what the other end has sent, and RING_NO_MEMORY. */
ring_status ring_rendezvous_send(const ring_rendezvous *rendezvous, ring_poll_set *poll_set, int fd,
                                 ring_seal *seal, const ring_message *message);
ring_status ring_rendezvous_receive(const ring_rendezvous *rendezvous, ring_poll_set *poll_set,
                                    int fd, ring_seal *seal, ring_message *message);

/* Hears what has come of a message, without waiting for more of it: RING_BUSY when that is not all, else
 * what ring_rendezvous_receive returns. end frees what one that has begun holds, and makes it zeros. */
ring_status ring_rendezvous_receive_part(const ring_rendezvous *rendezvous, int fd, ring_seal *seal,
                                         ring_partial_message *partial, ring_message *message);
void ring_rendezvous_receive_end(ring_partial_message *partial);

/* "21345, 30112, 25001": the ports of the sequence, for messages. */
void ring_rendezvous_ports_text(const ring_rendezvous *rendezvous, char *text, size_t size);

/* The errors of a wait that ended: RING_ABORTED for an interrupt, RING_AUTH for what was changed on
 * its way from a rank. */
ring_status ring_rendezvous_aborted(const ring_rendezvous *rendezvous, ring_error *error);
ring_status ring_rendezvous_altered(int rank, const char *host, ring_error *error);

/* RING_MISMATCH: a rank does not want the same encryption as rank 0. */
ring_status ring_rendezvous_disagree(const ring_rendezvous *rendezvous, int odd,
                                     bool root_encrypted, ring_error *error);

#endif
