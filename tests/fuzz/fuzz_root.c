/* SPDX-License-Identifier: Apache-2.0
 *
 * Rank 0 of a rendezvous by addresses: the input is the size, and pending connections with what they claim and send
 * (JOIN and REPORT). It ends when all have joined and know the places, or at the deadline; then
 * every rank has a place, or the error names what is missing.
 */
#include "rendezvous/rendezvous.h"
#include "world.h"

enum { SIZE_MOST = 6, GUESTS_MOST = 16 };

static void invite(input *from, int size) {
  for (int i = 0; i < GUESTS_MOST && from->left > 0; i++) {
    unsigned who = input_byte(from);
    ring_claim claim = {.purpose = who & 0x80 ? RING_PURPOSE_LINK : RING_PURPOSE_RENDEZVOUS,
                        .rank = (int)(who & 0x3f) % size,
                        .size = size,
                        .epoch = 0x1111111111111111,
                        .encrypted = who & 0x40};
    input now = input_piece(from), later = input_piece(from);
    world_accepts(world_connection(now, later), claim);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
  static const char *const hosts[SIZE_MOST] = {"a", "b", "a", "d", "b", "f"};
  input from = {bytes, length};
  unsigned first = input_byte(&from);
  int size = 2 + (int)(first & 0x7f) % (SIZE_MOST - 1);
  ring_wait wait;
  ring_peers peers;
  ring_error error = {.rank = -1};
  world_shakes_hands(false);
  ring_wait_init(&wait, 0.5, NULL, NULL);
  ring_rendezvous rendezvous = {.size = size,
                                .hosts = first & 0x80 ? hosts : NULL,
                                .root_host = hosts[0],
                                .job = "fuzz",
                                .wait = &wait};
  FUZZ_PROMISE(ring_peers_init(&peers, 0, size) == RING_OK);
  invite(&from, size);
  ring_status status = ring_rendezvous_run(&rendezvous, &peers, &error);
  FUZZ_PROMISE(status == error.status || status == RING_OK);
  for (int rank = 0; rank < size && status == RING_OK; rank++)
    FUZZ_PROMISE(peers.peer[rank].port > 0 && ring_peers_host(&peers, rank)[0] != '\0');
  ring_peers_fini(&peers);
  world_end();
  return 0;
}
