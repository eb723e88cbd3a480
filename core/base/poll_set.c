/* SPDX-License-Identifier: Apache-2.0 */
#include "base/poll_set.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include "base/background.h"
#include "base/platform.h"

void ring_poll_set_fini(ring_poll_set *poll_set) {
  free(poll_set->entries);
  *poll_set = (ring_poll_set){0};
}

void ring_poll_set_reset(ring_poll_set *poll_set) {
  poll_set->count = 0;
  poll_set->full = false;
  poll_set->most = INT_MAX;
}

size_t ring_poll_set_add(ring_poll_set *poll_set, int fd, short events) {
  if (poll_set->count == poll_set->capacity) {
    size_t capacity = poll_set->capacity == 0 ? 16 : 2 * poll_set->capacity;
    struct pollfd *grown = realloc(poll_set->entries, capacity * sizeof *grown);
    if (grown == NULL) {
      poll_set->full = true;
      return SIZE_MAX;
    }
    poll_set->entries = grown;
    poll_set->capacity = capacity;
  }
  poll_set->entries[poll_set->count] = (struct pollfd){.fd = fd, .events = events};
  return poll_set->count++;
}

void ring_poll_set_hurry(ring_poll_set *poll_set, int milliseconds) {
  if (milliseconds < poll_set->most) poll_set->most = milliseconds;
}

/* Polls, in pieces where a library has to be called meanwhile. Returns what poll() returns. */
static int poll_set_poll(ring_poll_set *poll_set, int milliseconds) {
  nfds_t count = (nfds_t)poll_set->count;
  int piece = ring_background_work(milliseconds), ready = poll(poll_set->entries, count, piece);
  if (piece == milliseconds) return ready;
  uint64_t end = ring_platform_now() + (uint64_t)(milliseconds - piece) * 1000000;
  while (ready == 0 && (milliseconds < 0 || ring_platform_now() < end))
    ready = poll(poll_set->entries, count, ring_background_work(piece));
  return ready;
}

ring_status ring_poll_set_sleep(ring_poll_set *poll_set, int milliseconds) {
  if (poll_set->full) return RING_NO_MEMORY;
  if (milliseconds > poll_set->most) milliseconds = poll_set->most;
  if (poll_set_poll(poll_set, milliseconds) >= 0) return RING_OK;
  for (size_t i = 0; i < poll_set->count; i++) poll_set->entries[i].revents = 0;
  return errno == EINTR || errno == EAGAIN ? RING_OK : RING_SYSTEM;
}

bool ring_poll_set_ready(const ring_poll_set *poll_set, size_t slot) {
  return slot < poll_set->count && poll_set->entries[slot].revents != 0;
}
