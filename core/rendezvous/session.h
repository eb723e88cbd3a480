/* SPDX-License-Identifier: Apache-2.0
 *
 * The session of a rendezvous.
 */
#ifndef RING_RENDEZVOUS_SESSION_H
#define RING_RENDEZVOUS_SESSION_H

#include "auth/keys.h"
#include "base/wait.h"

/* Ports tried for rank 0, at most. */
#define RING_RENDEZVOUS_PORTS 32

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

/* What all ranks of a job derive from what they know before: its key, and the ports for rank 0. */
bool ring_rendezvous_begin(ring_rendezvous *rendezvous, ring_keys *keys);

/* Listens for links on a free port of the range, or on any. A descriptor, or -1 with *error set. */
int ring_rendezvous_listen(const ring_rendezvous *rendezvous, ring_error *error);

/* The port of that listener; or -1 with *error set. */
int ring_rendezvous_port(const ring_rendezvous *rendezvous, int listener, ring_error *error);

/* Tells the user of a rank other than 0 that its wait lasts, when that is due. */
void ring_rendezvous_warn(const ring_rendezvous *rendezvous);

/* "21345, 30112, 25001": the ports of the sequence, for messages. */
void ring_rendezvous_ports_text(const ring_rendezvous *rendezvous, char *text, size_t size);

/* The errors of a wait that ended: RING_ABORTED for an interrupt, RING_AUTH for what was changed on
 * its way from a rank. */
ring_status ring_rendezvous_aborted(const ring_rendezvous *rendezvous, ring_error *error);
ring_status ring_rendezvous_tampered(int rank, const char *host, ring_error *error);

/* RING_SYSTEM: OpenSSL failed. */
ring_status ring_rendezvous_no_crypto(ring_error *error);

/* RING_MISMATCH: a rank does not want the same encryption as rank 0. */
ring_status ring_rendezvous_mismatch(const ring_rendezvous *rendezvous, int odd,
                                     bool root_encrypted, ring_error *error);

#endif
