/* SPDX-License-Identifier: Apache-2.0
 *
 * The shutdown of a rank whose last call has succeeded. A peer may still wait for bytes that this
 * rank has sent and the network has lost. The system resends them only while the socket is open.
 * After it is closed, the system answers any frame of the peer, a wait report for example, with a
 * reset, and the peer never receives the lost bytes.
 */
#ifndef RING_PEERS_SHUTDOWN_H
#define RING_PEERS_SHUTDOWN_H

#include "base/poll_set.h"
#include "base/wait.h"
#include "peers/peers.h"

/* Ends the sending side of all links. Returns when each peer has ended its side, too, or its host
 * has confirmed all bytes, but after 5 s or at the deadline of `wait` at the latest. */
void ring_shutdown(ring_peers *peers, ring_poll_set *poll_set, const ring_wait *wait);

#endif
