/* SPDX-License-Identifier: Apache-2.0
 *
 * Rank 0's side of the rendezvous by addresses.
 */
#ifndef RING_RENDEZVOUS_ROOT_H
#define RING_RENDEZVOUS_ROOT_H

#include "peers/peers.h"
#include "rendezvous/session.h"

ring_status ring_rendezvous_root(ring_rendezvous *rendezvous, ring_peers *peers, ring_error *error);

#endif
