/* SPDX-License-Identifier: Apache-2.0
 *
 * How a rank leaves whose last call has ended well. Another one may still wait for what this rank has
 * said last, which the network may have lost. While its socket is open the system repeats it; once
 * that is closed, whatever the waiting rank says, a notice for example, is answered with a reset, and
 * the last word never comes.
 */
#ifndef RING_FAREWELL_H
#define RING_FAREWELL_H

#include "peers.h"
#include "poller.h"
#include "wait.h"

/* Tells all links that nothing more comes, and returns when what was sent has arrived at all ranks:
 * each has ended its link, too, or its host has confirmed it. After 5 s, or at the deadline of
 * `wait`, it is left to the system. */
void ring_farewell(ring_peers *peers, ring_poller *poller, const ring_wait *wait);

#endif
