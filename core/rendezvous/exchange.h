/* SPDX-License-Identifier: Apache-2.0
 *
 * The rendezvous by an exchange.
 */
#ifndef RING_RENDEZVOUS_EXCHANGE_H
#define RING_RENDEZVOUS_EXCHANGE_H

#include "peers/peers.h"
#include "rendezvous/session.h"

ring_status ring_exchange_run(ring_rendezvous *rendezvous, ring_peers *peers, ring_error *error);

#endif
