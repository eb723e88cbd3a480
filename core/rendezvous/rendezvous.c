/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/rendezvous.h"

#include "base/error.h"
#include "rendezvous/client.h"
#include "rendezvous/exchange.h"
#include "rendezvous/root.h"

static ring_status rendezvous_alone(ring_rendezvous *rendezvous, ring_peers *peers,
                                    ring_error *error) {
  if (!ring_secret_random(&peers->epoch, sizeof peers->epoch))
    return ring_rendezvous_no_crypto(error);
  if (ring_peers_place(peers, 0, rendezvous->root_host, 0) != RING_OK)
    return ring_error_no_memory(error, rendezvous->rank);
  return RING_OK;
}

ring_status ring_rendezvous_run(ring_rendezvous *rendezvous, ring_peers *peers, ring_error *error) {
  peers->authenticated = rendezvous->token_length > 0;
  peers->encrypted = rendezvous->encrypted;
  if (rendezvous->size == 1) return rendezvous_alone(rendezvous, peers, error);
  ring_status status = RING_OK;
  if (!ring_rendezvous_begin(rendezvous, &peers->keys))
    status = ring_rendezvous_no_crypto(error);
  else if (rendezvous->exchange != NULL)
    status = ring_exchange_run(rendezvous, peers, error);
  else if (rendezvous->rank == 0)
    status = ring_rendezvous_root(rendezvous, peers, error);
  else
    status = ring_rendezvous_client(rendezvous, peers, error);
  return status;
}
