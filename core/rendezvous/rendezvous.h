/* SPDX-License-Identifier: Apache-2.0
 *
 * Rendezvous: from addresses to peers that are proven to belong to the job.
 *
 * With an exchange (exchange.h), each rank listens first and publishes its port, its wish for
 * encryption and its public key through the exchange; rank 0 adds the epoch.
 *
 * Without an exchange, rank 0 (root.h) listens on the first free port of a sequence derived from
 * the job's key. The other ranks (client.h) try the same sequence on rank 0's host until a listener
 * proves to be rank 0, and send it their own port (join.h). When all have joined, rank 0 sends each
 * rank the epoch and the address of its parent in the binomial tree of ranks. The table of all
 * addresses then travels down the tree (address_table.h), over links that stay open. Each rank
 * reports to rank 0 that it has the table, or why it cannot have it, and rank 0 sends the result to
 * all. So rank 0 sends a few bytes to each rank, and the table log2(size) times.
 *
 * All other links open later, when they are first used.
 */
#ifndef RING_RENDEZVOUS_RENDEZVOUS_H
#define RING_RENDEZVOUS_RENDEZVOUS_H

#include "peers/peers.h"
#include "rendezvous/session.h"

/* Fills the addresses, keys and epoch of `peers`, and opens its listener. */
ring_status ring_rendezvous_run(ring_rendezvous *rendezvous, ring_peers *peers, ring_error *error);

#endif
