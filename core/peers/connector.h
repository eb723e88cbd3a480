/* SPDX-License-Identifier: Apache-2.0
 *
 * The connector: connections to other ranks that are being made. Of two ranks the higher one
 * connects. It tries the addresses of the peer's host one after another, and makes the connections
 * of a link one after another, until the link is open. To a higher rank, which has to connect
 * itself, the connector only probes the listener at intervals, to detect early that the rank is
 * gone.
 */
#ifndef RING_PEERS_CONNECTOR_H
#define RING_PEERS_CONNECTOR_H

#include "base/poll_set.h"
#include "peers/peer_table.h"

/* Starts to connect to a lower rank, or to probe a higher one. Does nothing when that is under way.
 * RING_PEER_LOST: no address of the peer can be reached. */
ring_status ring_connector_start(ring_peers *peers, int rank, ring_error *error);

/* Cancels the connection or probe to a rank. One must be under way. */
void ring_connector_cancel(ring_peers *peers, int rank);

/* Before a sleep: adds the descriptors to the poll set. */
void ring_connector_watch(ring_peers *peers, ring_poll_set *poll_set);

/* After the sleep: advances all connections and probes. */
ring_status ring_connector_serve(ring_peers *peers, const ring_poll_set *poll_set,
                                 ring_error *error);

#endif
