/* SPDX-License-Identifier: Apache-2.0
 *
 * Dialing: connections to other ranks that are under way. A lower rank is dialed, address after
 * address of its host and lane after lane, until the link is open; a higher one dials itself, so it
 * is only probed now and then, to learn in time that it is gone.
 */
#ifndef RING_DIAL_H
#define RING_DIAL_H

#include "peers.h"

/* Begins to connect to a rank; or, if that is for the other side to do, to look whether it is still
 * there. Does nothing when that is under way. */
ring_status ring_dial_want(ring_peers *peers, int rank, ring_error *error);

/* Gives up a connection, or a probe, that is under way. */
void ring_dial_hang_up(ring_peers *peers, int rank);

/* Before and after a sleep. */
void ring_dial_watch(ring_peers *peers, ring_poller *poller);
ring_status ring_dial_serve(ring_peers *peers, const ring_poller *poller, ring_error *error);

#endif
