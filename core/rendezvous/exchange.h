/* SPDX-License-Identifier: Apache-2.0
 *
 * Rendezvous by an exchange: a function of the caller that gives every rank the string of every
 * rank (an allgather of Spark's barrier, for example). A string holds the port, the wish for
 * encryption, the public key and, from rank 0, the epoch. Nothing in it is secret. The channel must
 * keep strings unchanged; it need not keep them secret.
 */
#ifndef RING_RENDEZVOUS_EXCHANGE_H
#define RING_RENDEZVOUS_EXCHANGE_H

#include "peers/peers.h"
#include "rendezvous/session.h"

/* RING_INVALID: a string is missing or malformed. RING_ABORTED: the exchange failed. */
ring_status ring_exchange_run(ring_rendezvous *rendezvous, ring_peers *peers, ring_error *error);

#endif
