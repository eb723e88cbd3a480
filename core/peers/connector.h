/* SPDX-License-Identifier: Apache-2.0
 *
 * Dialing: connections to other ranks that are under way. A lower rank is connected to, address after
 * address of its host and connection after connection, until the link is open; a higher one connects to itself, so it
 * is only probed now and then, to learn in time that it is gone.
 */
#ifndef RING_PEERS_CONNECTOR_H
#define RING_PEERS_CONNECTOR_H

#include "base/poll_set.h"
#include "peers/peer_table.h"

/* Begins to connect to a rank; or, if that is for the other side to do, to look whether it is still
 * there. Does nothing when that is under way. */
ring_status ring_connector_start(ring_peers *peers, int rank, ring_error *error);

/* Gives up a connection, or a probe, that is under way. */
void ring_connector_cancel(ring_peers *peers, int rank);

/* Before and after a sleep. */
void ring_connector_watch(ring_peers *peers, ring_poll_set *poll_set);
ring_status ring_connector_serve(ring_peers *peers, const ring_poll_set *poll_set,
                                 ring_error *error);

#endif
