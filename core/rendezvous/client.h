/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RING_RENDEZVOUS_CLIENT_H
#define RING_RENDEZVOUS_CLIENT_H

#include "peers/peers.h"
#include "rendezvous/session.h"

ring_status ring_rendezvous_client(ring_rendezvous *rendezvous, ring_peers *peers,
                                   ring_error *error);

#endif
