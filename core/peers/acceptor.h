/* SPDX-License-Identifier: Apache-2.0
 *
 * The acceptor: accepts connections at a listener and runs their handshakes. A connection is
 * pending until its handshake is done. At most RING_ACCEPTOR_PENDING connections are pending, each
 * for at most 5 s, so an outsider costs one descriptor for a few seconds. When the acceptor is full,
 * further connections wait in the listener's queue, and the timeout of the pending connections
 * becomes shorter; it is shortest for a connection that has sent nothing.
 *
 * The owner decides: `judge` returns the answer on a proven claim, and `admit` receives the
 * descriptor of each connection whose answer is ACCEPTED.
 */
#ifndef RING_PEERS_ACCEPTOR_H
#define RING_PEERS_ACCEPTOR_H

#include "auth/handshake.h"
#include "base/poll_set.h"

#define RING_ACCEPTOR_PENDING 64

typedef struct ring_pending_connection {
  ring_handshake handshake;
  uint64_t accepted; /* when */
  size_t slot;       /* in the poll set */
} ring_pending_connection;

typedef struct ring_acceptor {
  int listener; /* -1: closed */
  int rank, size;
  const ring_keys *keys;
  bool encrypted; /* admitted connections will be */
  ring_answer (*judge)(void *owner, const ring_claim *claim);
  void (*admit)(void *owner, const ring_handshake *proven);
  void *owner;
  size_t slot;
  int exhausted; /* errno while the system lacks descriptors or memory to accept; else 0 */
  int lacked;    /* the last such errno since a connection was admitted; for error messages */
  bool starved;  /* OpenSSL lacked memory or entropy for the last pending connection */
  int pending_count;
  ring_pending_connection *pending;
} ring_acceptor;

/* Opens the acceptor on a listener, which it then owns. RING_NO_MEMORY. */
ring_status ring_acceptor_open(ring_acceptor *acceptor, int listener, int rank, int size,
                               const ring_keys *keys);

/* Closes one pending connection to free its descriptor. False when none is pending. Not to be
 * called between watch and serve. */
bool ring_acceptor_drop(ring_acceptor *acceptor);

/* Closes all pending connections, and returns the listener, which is the caller's then. */
int ring_acceptor_release(ring_acceptor *acceptor);

/* Closes all pending connections and the listener. */
void ring_acceptor_close(ring_acceptor *acceptor);

/* Before a sleep: adds the descriptors to the poll set. */
void ring_acceptor_watch(ring_acceptor *acceptor, ring_poll_set *poll_set);

/* After the sleep: advances the handshakes of ready connections and accepts new ones. */
void ring_acceptor_serve(ring_acceptor *acceptor, const ring_poll_set *poll_set);

#endif
