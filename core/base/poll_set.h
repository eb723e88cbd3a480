/* SPDX-License-Identifier: Apache-2.0
 *
 * The set of descriptors that a wait sleeps on. It is filled anew before every sleep and never shrinks, so
 * waiting allocates nothing after the first time.
 */
#ifndef RING_BASE_POLL_SET_H
#define RING_BASE_POLL_SET_H

#include <poll.h>
#include <stdbool.h>

#include "sparkring.h"

typedef struct ring_poll_set {
  struct pollfd *entries;
  size_t count, capacity;
  bool full; /* an add failed without memory */
  int most;  /* milliseconds of the next sleep */
} ring_poll_set;

void ring_poll_set_fini(ring_poll_set *poll_set);
void ring_poll_set_reset(ring_poll_set *poll_set);

/* Adds a descriptor; returns its slot. */
size_t ring_poll_set_add(ring_poll_set *poll_set, int fd, short events);

/* Limits the next sleep to `milliseconds`. */
void ring_poll_set_hurry(ring_poll_set *poll_set, int milliseconds);

/* Sleeps for at most `milliseconds`, or until a descriptor is ready. RING_NO_MEMORY when an add had
 * failed; RING_OK also after a signal or a timeout. */
ring_status ring_poll_set_sleep(ring_poll_set *poll_set, int milliseconds);

/* Whether the last sleep found an event of the descriptor in this slot. */
bool ring_poll_set_ready(const ring_poll_set *poll_set, size_t slot);

#endif
