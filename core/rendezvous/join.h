/* SPDX-License-Identifier: Apache-2.0
 *
 * A client's rendezvous after the handshake with rank 0.
 */
#ifndef RING_RENDEZVOUS_JOIN_H
#define RING_RENDEZVOUS_JOIN_H

#include "auth/seal.h"
#include "peers/peers.h"
#include "rendezvous/session.h"

/* Joins over the connection `fd`, which stays the caller's. A failure with error->status RING_OK
 * means that rank 0 closed the connection before it sent anything: the caller may look for rank 0
 * again. */
ring_status ring_rendezvous_join(ring_rendezvous *rendezvous, ring_peers *peers, int fd,
                                 ring_seal *seal, ring_error *error);

#endif
