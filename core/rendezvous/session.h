/* SPDX-License-Identifier: Apache-2.0
 *
 * The session of a rendezvous: what a rank knows before it connects to any other rank, what all
 * ranks derive from it, the listener for links, and the warnings and errors that all sides share.
 */
#ifndef RING_RENDEZVOUS_SESSION_H
#define RING_RENDEZVOUS_SESSION_H

#include "auth/keys.h"
#include "base/wait.h"

/* Ports tried for rank 0, at most. */
#define RING_RENDEZVOUS_PORTS 32

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
  uint16_t ports[RING_RENDEZVOUS_PORTS]; /* of rank 0, see ring_rendezvous_begin */
  int port_count;
  bool awaited; /* the rendezvous has failed here, and other ranks may wait in their first call */
} ring_rendezvous;

/* Derives the job's key and the ports of rank 0. Equal on all ranks of a job. False when OpenSSL
 * fails. */
bool ring_rendezvous_begin(ring_rendezvous *rendezvous, ring_keys *keys);

/* Listens for links on a free port of the range, or on any. Returns a descriptor, or -1 with
 * *error. */
int ring_rendezvous_listen(const ring_rendezvous *rendezvous, ring_error *error);

/* The port of that listener, or -1 with *error. */
int ring_rendezvous_port(const ring_rendezvous *rendezvous, int listener, ring_error *error);

/* Warns the user of a rank other than 0, when that is due, that open() still waits. */
void ring_rendezvous_warn(const ring_rendezvous *rendezvous);

/* "21345, 30112, 25001": the ports of the sequence, for error messages. */
void ring_rendezvous_ports_text(const ring_rendezvous *rendezvous, char *text, size_t size);

/* RING_ABORTED: an interrupt ended the wait. */
ring_status ring_rendezvous_aborted(const ring_rendezvous *rendezvous, ring_error *error);

/* RING_AUTH: bytes from a rank were changed on the way. */
ring_status ring_rendezvous_tampered(int rank, const char *host, ring_error *error);

/* RING_SYSTEM: OpenSSL failed. */
ring_status ring_rendezvous_no_crypto(ring_error *error);

/* RING_MISMATCH: rank `odd` and rank 0 differ in their wish for encryption. */
ring_status ring_rendezvous_mismatch(const ring_rendezvous *rendezvous, int odd,
                                     bool root_encrypted, ring_error *error);

#endif
