/* SPDX-License-Identifier: Apache-2.0
 *
 * Rendezvous: from addresses to peers that are known to belong to the job.
 *
 * With an exchange, every rank listens first, tells its port, whether it wants encryption and its
 * public key (keys.h) through the exchange, and rank 0 adds the epoch. Without one, rank 0 binds
 * the first free port of a sequence derived from the job's key; the others walk the same sequence
 * on rank 0's host until a listener proves to be theirs, and tell it their own port (JOIN). When
 * all have, each is told the epoch and where its parent in the binomial tree of ranks is
 * (WELCOME); the table of all places then travels down the tree (address_table.h), over links that stay.
 * A rank that has it says so, or says what kept it from it (REPORT), and when all have it, or one
 * cannot, rank 0 tells everybody (VERDICT). So rank 0 moves a few bytes for each rank and the
 * table log2(size) times. Other links are opened later, when they are first used.
 *
 *   JOIN      port u16, milliseconds left u32; sealed (seal.h). Without a port, 0, the rank cannot
 *             join, and a REPORT follows that says why
 *   message      length u32 of what follows, which is sealed: status u8, rank at fault i32; then an
 *             explanation when the status is not RING_OK, else what is said below
 *   WELCOME   a message: epoch u64, parent's port u16, parent's host: length u8, text
 *   REPORT    a message: nothing. One that says what the rank lacks may also come before the WELCOME
 *   VERDICT   a message: nothing
 *
 * rendezvous.c has what both sides share and the exchange; root.c is rank 0's side of
 * the rendezvous by addresses, root_report.c what it says of one that does not come about,
 * client.c the others' until they have found rank 0, and join.c from there on.
 */
#ifndef RING_RENDEZVOUS_RENDEZVOUS_H
#define RING_RENDEZVOUS_RENDEZVOUS_H

#include "peers/peers.h"
#include "rendezvous/session.h"

/* Meets the others: fills the places, keys and epoch of `peers` and opens its listener. */
ring_status ring_rendezvous_run(ring_rendezvous *rendezvous, ring_peers *peers, ring_error *error);

#endif
