/* SPDX-License-Identifier: Apache-2.0 */
#include "poller.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>

void ring_poller_fini(ring_poller *poller) {
  free(poller->entries);
  *poller = (ring_poller){0};
}

void ring_poller_reset(ring_poller *poller) {
  poller->count = 0;
  poller->full = false;
  poller->most = INT_MAX;
}

size_t ring_poller_add(ring_poller *poller, int fd, short events) {
  if (poller->count == poller->room) {
    size_t room = poller->room == 0 ? 16 : 2 * poller->room;
    struct pollfd *grown = realloc(poller->entries, room * sizeof *grown);
    if (grown == NULL) {
      poller->full = true;
      return SIZE_MAX;
    }
    poller->entries = grown;
    poller->room = room;
  }
  poller->entries[poller->count] = (struct pollfd){.fd = fd, .events = events};
  return poller->count++;
}

void ring_poller_hurry(ring_poller *poller, int milliseconds) {
  if (milliseconds < poller->most) poller->most = milliseconds;
}

ring_status ring_poller_sleep(ring_poller *poller, int milliseconds) {
  if (poller->full) return RING_NO_MEMORY;
  if (milliseconds > poller->most) milliseconds = poller->most;
  if (poll(poller->entries, (nfds_t)poller->count, milliseconds) >= 0) return RING_OK;
  for (size_t i = 0; i < poller->count; i++) poller->entries[i].revents = 0;
  return errno == EINTR || errno == EAGAIN ? RING_OK : RING_SYSTEM;
}

bool ring_poller_ready(const ring_poller *poller, size_t slot) {
  return slot < poller->count && poller->entries[slot].revents != 0;
}
