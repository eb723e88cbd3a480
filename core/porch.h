/* SPDX-License-Identifier: Apache-2.0
 *
 * The porch: where connections wait until they have proved who they are. It is bounded in guests
 * and in time, so strangers cost a descriptor each for a few seconds and nothing else: when it is
 * full, others wait in the listener's queue until a guest has had the time that it then gets, less
 * if it has said nothing. What a proven guest may have is its owner's decision: `judge` gives the
 * verdict, `admit` takes the descriptor of a welcome one, who has proved the claim of its handshake.
 */
#ifndef RING_PORCH_H
#define RING_PORCH_H

#include "handshake.h"
#include "poller.h"

#define RING_PORCH_GUESTS 64

typedef struct ring_guest {
  ring_handshake handshake;
  uint64_t came;
  size_t slot; /* in the poller */
} ring_guest;

typedef struct ring_porch {
  int listener; /* -1: closed */
  int rank, size;
  const ring_keys *keys;
  bool encrypted; /* what is said behind it */
  ring_verdict (*judge)(void *owner, const ring_claim *claim);
  void (*admit)(void *owner, const ring_handshake *proven);
  void *owner;
  size_t slot;
  int exhausted; /* errno, when the system has no descriptors or memory for more guests */
  int lacked;    /* the last such errno since a guest was let in; for those who wait in vain */
  bool starved;  /* nothing to answer the last guest with: OpenSSL lacks memory or entropy */
  int guest_count;
  ring_guest *guests;
} ring_porch;

/* Opens the porch before a listener, which it then owns. */
ring_status ring_porch_open(ring_porch *porch, int listener, int rank, int size,
                            const ring_keys *keys);

/* Sends a guest away, for its descriptor; false when there is none. Not between watch and serve. */
bool ring_porch_spare(ring_porch *porch);

/* Sends every guest away and closes the listener. */
void ring_porch_close(ring_porch *porch);

/* Adds its descriptors to a poller that is about to sleep. */
void ring_porch_watch(ring_porch *porch, ring_poller *poller);

/* After the sleep: lets new guests in and hears those that spoke. */
void ring_porch_serve(ring_porch *porch, const ring_poller *poller);

#endif
