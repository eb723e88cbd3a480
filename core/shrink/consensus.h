/* SPDX-License-Identifier: Apache-2.0
 *
 * Gathers the living ranks of a generation and forms the next one (README.md). The roster's acceptor must
 * listen, unless it has one rank.
 */
#ifndef RING_SHRINK_CONSENSUS_H
#define RING_SHRINK_CONSENSUS_H

#include "base/wait.h"
#include "shrink/generation.h"

/* On success the roster is in the new generation, and its links are open: a leader that closed one at
 * once could lose the last message on it. Errors name ranks by their number in the roster. */
ring_status ring_consensus_run(ring_roster *roster, ring_wait *wait, ring_error *error);

#endif
