/* SPDX-License-Identifier: Apache-2.0
 *
 * The other ranks: where each one is, and the links to them. A link opens when it is first asked
 * for, so a rank has as many as its algorithms use. Of two ranks the higher one connects to and the lower
 * one accepts; both are inside the same collective call then, because every send in a schedule has
 * its receive. A link is one connection or, between hosts, several (connections), which the connecting side opens
 * one after the other. The listener stays open for the life of the communicator.
 */
#ifndef RING_PEERS_PEERS_H
#define RING_PEERS_PEERS_H

#include "base/poll_set.h"
#include "peers/peer_table.h"

/* Serves a listener for links; the peers then own it. */
ring_status ring_peers_listen(ring_peers *peers, int listener);

/* Before and after a sleep: everything that has to do with links that are not open yet. */
void ring_peers_watch(ring_peers *peers, ring_poll_set *poll_set);
ring_status ring_peers_serve(ring_peers *peers, const ring_poll_set *poll_set, ring_error *error);

/* Answers those at the listener, without sleeping: for waits that are not for links. */
void ring_peers_accept(ring_peers *peers, ring_poll_set *poll_set);

/* Before a sleep: links on which something may still come. */
void ring_peers_watch_links(const ring_peers *peers, ring_poll_set *poll_set);

/* Reads and forgets what still comes: a socket that is closed with unread bytes resets its connection,
 * and what was said last on it may be lost. True when nothing more can come. */
bool ring_peers_drain(ring_peers *peers);

/* Closes links and listener. */
void ring_peers_close(ring_peers *peers);

/* And frees everything. */
void ring_peers_fini(ring_peers *peers);

#endif
