/* SPDX-License-Identifier: Apache-2.0
 *
 * How a rank leaves whose last call has ended well. Another one may still wait for what this rank has
 * said last, which the network may have lost. While its socket is open the system repeats it; once
 * that is closed, whatever the waiting rank says, a wait report for example, is answered with a reset, and
 * the last word never comes.
 */
#ifndef RING_PEERS_SHUTDOWN_H
#define RING_PEERS_SHUTDOWN_H

#include "base/poll_set.h"
#include "base/wait.h"
#include "peers/peers.h"

/* Tells all links that nothing more comes, and returns when what was sent has arrived at all ranks:
 * each has ended its link, too, or its host has confirmed it. After 5 s, or at the deadline of
 * `wait`, it is left to the system. */
void ring_shutdown(ring_peers *peers, ring_poll_set *poll_set, const ring_wait *wait);

#endif
