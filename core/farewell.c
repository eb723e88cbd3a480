/* SPDX-License-Identifier: Apache-2.0 */
#include "farewell.h"

#include "platform.h"

#define FAREWELL_NS UINT64_C(5000000000)
#define FAREWELL_LOOK_MS 16 /* how often it is looked, at least: no poll tells */

static bool farewell_has_arrived(const ring_peers *peers) {
  for (int i = 0; i < peers->linked_count; i++) {
    const ring_peer *peer = &peers->peer[peers->linked[i]];
    if (!peer->ended && !peer->link->ops->arrived(peer->link)) return false;
  }
  return true;
}

/* Sleeps until something comes, which is then read and forgotten. */
static bool farewell_sleep(const ring_peers *peers, ring_poller *poller, int milliseconds) {
  ring_poller_reset(poller);
  ring_peers_watch_links(peers, poller);
  return ring_poller_sleep(poller, milliseconds) == RING_OK;
}

void ring_farewell(ring_peers *peers, ring_poller *poller, const ring_wait *wait) {
  uint64_t give_up = ring_platform_now() + FAREWELL_NS;
  if (give_up > wait->deadline) give_up = wait->deadline;
  for (int i = 0; i < peers->linked_count; i++) {
    const ring_peer *peer = &peers->peer[peers->linked[i]];
    if (!peer->ended) peer->link->ops->finish(peer->link);
  }
  for (int look = 1; !ring_peers_drain(peers) && !farewell_has_arrived(peers);
       look = look < FAREWELL_LOOK_MS ? 2 * look : look)
    if (ring_platform_now() >= give_up || !farewell_sleep(peers, poller, look)) return;
}
