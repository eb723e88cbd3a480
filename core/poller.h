/* SPDX-License-Identifier: Apache-2.0
 *
 * The set of descriptors that a wait sleeps on: filled anew before every sleep, never shrunk, so
 * that waiting allocates nothing once it has run.
 */
#ifndef RING_POLLER_H
#define RING_POLLER_H

#include <poll.h>
#include <stdbool.h>

#include "sparkring.h"

typedef struct ring_poller {
  struct pollfd *entries;
  size_t count, room;
  bool full; /* an add failed for want of memory */
  int most;  /* milliseconds of the next sleep */
} ring_poller;

void ring_poller_fini(ring_poller *poller);
void ring_poller_reset(ring_poller *poller);

/* Adds a descriptor; returns its slot. */
size_t ring_poller_add(ring_poller *poller, int fd, short events);

/* Lets the next sleep last so long at most. */
void ring_poller_hurry(ring_poller *poller, int milliseconds);

/* Sleeps for at most `milliseconds`, less when a descriptor is ready. RING_NO_MEMORY when an add
 * had failed; a signal or a time-out is RING_OK. */
ring_status ring_poller_sleep(ring_poller *poller, int milliseconds);

/* Whether anything happened to the descriptor in this slot during the last sleep. */
bool ring_poller_ready(const ring_poller *poller, size_t slot);

#endif
