/* SPDX-License-Identifier: Apache-2.0
 *
 * The acceptor: where connections wait until they have proved who they are. It is bounded in pending connections
 * and in time, so strangers cost a descriptor each for a few seconds and nothing else: when it is
 * full, others wait in the listener's queue until a pending connection has had the time that it then gets, less
 * if it has said nothing. What a proven pending connection may have is its owner's decision: `judge` gives the
 * verdict, `admit` takes the descriptor of a welcome one, who has proved the claim of its handshake.
 */
#ifndef RING_PEERS_ACCEPTOR_H
#define RING_PEERS_ACCEPTOR_H

#include "auth/handshake.h"
#include "base/poll_set.h"

#define RING_ACCEPTOR_PENDING 64

typedef struct ring_pending_connection {
  ring_handshake handshake;
  uint64_t accepted;
  size_t slot; /* in the poll set */
} ring_pending_connection;

typedef struct ring_acceptor {
  int listener; /* -1: closed */
  int rank, size;
  const ring_keys *keys;
  bool encrypted; /* what is said behind it */
  ring_verdict (*judge)(void *owner, const ring_claim *claim);
  void (*admit)(void *owner, const ring_handshake *proven);
  void *owner;
  size_t slot;
  int exhausted; /* errno, when the system has no descriptors or memory for more pending connections */
  int lacked; /* the last such errno since a pending connection was let in; for those who wait in vain */
  bool
      starved; /* nothing to answer the last pending connection with: OpenSSL lacks memory or entropy */
  int pending_count;
  ring_pending_connection *pending;
} ring_acceptor;

/* Opens the acceptor before a listener, which it then owns. */
ring_status ring_acceptor_open(ring_acceptor *acceptor, int listener, int rank, int size,
                               const ring_keys *keys);

/* Sends a pending connection away, for its descriptor; false when there is none. Not between watch and serve. */
bool ring_acceptor_drop(ring_acceptor *acceptor);

/* Sends every pending connection away and closes the listener. */
void ring_acceptor_close(ring_acceptor *acceptor);

/* Adds its descriptors to a poll set that is about to sleep. */
void ring_acceptor_watch(ring_acceptor *acceptor, ring_poll_set *poll_set);

/* After the sleep: lets new pending connections in and hears those that spoke. */
void ring_acceptor_serve(ring_acceptor *acceptor, const ring_poll_set *poll_set);

#endif
