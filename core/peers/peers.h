/* SPDX-License-Identifier: Apache-2.0
 *
 * Peers: opens, serves and closes the links to the other ranks. A link opens when it is first
 * needed, so a rank has only the links that its algorithms use. Of two ranks the higher one
 * connects and the lower one accepts. Both are inside the same collective call then, because every
 * send of a schedule has its receive. A link is one connection or, between hosts, several, which
 * the connecting rank opens one after another. The listener stays open for the life of the
 * communicator.
 */
#ifndef RING_PEERS_PEERS_H
#define RING_PEERS_PEERS_H

#include "base/poll_set.h"
#include "peers/peer_table.h"

/* Accepts links at a listener, which the peers then own. RING_NO_MEMORY. */
ring_status ring_peers_listen(ring_peers *peers, int listener);

/* Before a sleep: adds the acceptors and the connections under way to the poll set. */
void ring_peers_watch(ring_peers *peers, ring_poll_set *poll_set);

/* After the sleep: advances them. Fails when a link cannot be opened. */
ring_status ring_peers_serve(ring_peers *peers, const ring_poll_set *poll_set, ring_error *error);

/* Serves the listener once without sleeping, for waits that do not wait for links. */
void ring_peers_accept(ring_peers *peers, ring_poll_set *poll_set);

/* Before a sleep: adds the links on which bytes may still arrive. */
void ring_peers_watch_links(const ring_peers *peers, ring_poll_set *poll_set);

/* Reads and discards what has arrived on all links. True when all links have ended. A socket that
 * is closed with unread bytes resets its connection, and bytes sent last on it may be lost. */
bool ring_peers_drain(ring_peers *peers);

/* Closes links, connections under way, and listeners. */
void ring_peers_close(ring_peers *peers);

/* Closes, and frees everything. */
void ring_peers_fini(ring_peers *peers);

#endif
