/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RING_RENDEZVOUS_JOIN_H
#define RING_RENDEZVOUS_JOIN_H

#include "auth/seal.h"
#include "peers/peers.h"
#include "rendezvous/session.h"

/* The other ranks' side from the moment on when rank 0 has opened at the other end of fd. With
 * error->status RING_OK a failure means that rank 0 went away before it said anything. */
ring_status ring_rendezvous_join(ring_rendezvous *rendezvous, ring_peers *peers, int fd,
                                 ring_seal *seal, ring_error *error);

#endif
