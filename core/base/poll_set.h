/* SPDX-License-Identifier: Apache-2.0
 *
 * The set of descriptors that a wait sleeps on: filled anew before every sleep, never shrunk, so
 * that waiting allocates nothing once it has run.
 */
#ifndef RING_POLL_SET_H
#define RING_POLL_SET_H

#include <poll.h>
#include <stdbool.h>

#include "sparkring.h"

typedef struct ring_poll_set {
  struct pollfd *entries;
  size_t count, capacity;
  bool full; /* an add failed for want of memory */
  int most;  /* milliseconds of the next sleep */
} ring_poll_set;

void ring_poll_set_fini(ring_poll_set *poll_set);
void ring_poll_set_reset(ring_poll_set *poll_set);

/* Adds a descriptor; returns its slot. */
size_t ring_poll_set_add(ring_poll_set *poll_set, int fd, short events);

/* Lets the next sleep last so long at most. */
void ring_poll_set_hurry(ring_poll_set *poll_set, int milliseconds);

/* Sleeps for at most `milliseconds`, less when a descriptor is ready. RING_NO_MEMORY when an add
 * had failed; a signal or a time-out is RING_OK. */
ring_status ring_poll_set_sleep(ring_poll_set *poll_set, int milliseconds);

/* Whether anything happened to the descriptor in this slot during the last sleep. */
bool ring_poll_set_ready(const ring_poll_set *poll_set, size_t slot);

#endif
