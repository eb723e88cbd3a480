/* SPDX-License-Identifier: Apache-2.0 */
#include "peers/shutdown.h"

#include "base/platform.h"

#define SHUTDOWN_NS UINT64_C(5000000000)
#define SHUTDOWN_LOOK_MS 16 /* between two looks at most: no poll reports that bytes have arrived */

static bool shutdown_has_arrived(const ring_peers *peers) {
  for (int i = 0; i < peers->linked_count; i++) {
    const ring_peer *peer = &peers->peer[peers->linked[i]];
    if (!peer->ended && !peer->link->ops->arrived(peer->link)) return false;
  }
  return true;
}

/* Sleeps until something arrives. */
static bool shutdown_sleep(const ring_peers *peers, ring_poll_set *poll_set, int milliseconds) {
  ring_poll_set_reset(poll_set);
  ring_peers_watch_links(peers, poll_set);
  return ring_poll_set_sleep(poll_set, milliseconds) == RING_OK;
}

void ring_shutdown(ring_peers *peers, ring_poll_set *poll_set, const ring_wait *wait) {
  uint64_t deadline = ring_platform_now() + SHUTDOWN_NS;
  if (deadline > wait->deadline) deadline = wait->deadline;
  for (int i = 0; i < peers->linked_count; i++) {
    const ring_peer *peer = &peers->peer[peers->linked[i]];
    if (!peer->ended) peer->link->ops->finish(peer->link);
  }
  for (int look = 1; !ring_peers_drain(peers) && !shutdown_has_arrived(peers);
       look = look < SHUTDOWN_LOOK_MS ? 2 * look : look)
    if (ring_platform_now() >= deadline || !shutdown_sleep(peers, poll_set, look)) return;
}
