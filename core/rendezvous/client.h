/* SPDX-License-Identifier: Apache-2.0
 *
 * The side of the ranks other than 0 of the rendezvous by addresses: finds rank 0, then joins
 * (join.h).
 */
#ifndef RING_RENDEZVOUS_CLIENT_H
#define RING_RENDEZVOUS_CLIENT_H

#include "peers/peers.h"
#include "rendezvous/session.h"

ring_status ring_rendezvous_client(ring_rendezvous *rendezvous, ring_peers *peers,
                                   ring_error *error);

#endif
