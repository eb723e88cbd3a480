/* SPDX-License-Identifier: Apache-2.0
 *
 * The texts of an exchange: the input is this rank, the size, and texts with the ranks that they
 * claim. What was accepted gives every rank a place.
 */
#include "rendezvous/rendezvous.h"
#include "world.h"

enum { SIZE_MOST = 4 };

static int bring(void *arg, const char *mine, ring_exchange_put_fn put, void *sink) {
  input *from = arg;
  FUZZ_PROMISE(strncmp(mine, "sparkring/3 ", 12) == 0);
  while (from->left > 0) {
    int rank = (int8_t)input_byte(from);
    input piece = input_cut(from, input_byte(from));
    char *text = input_text(&piece);
    put(sink, rank, rank == SIZE_MOST ? NULL : text);
    free(text);
  }
  return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
  static const char *const hosts[SIZE_MOST] = {"a", "b", "a", "d"};
  input from = {bytes, length};
  int size = 2 + (int)input_byte(&from) % (SIZE_MOST - 1), rank = (int)input_byte(&from) % size;
  ring_wait wait;
  ring_peers peers;
  ring_error error;
  ring_wait_init(&wait, 1, NULL, NULL);
  ring_rendezvous rendezvous = {.rank = rank,
                                .size = size,
                                .hosts = hosts,
                                .root_host = hosts[0],
                                .job = "fuzz",
                                .exchange = bring,
                                .exchange_arg = &from,
                                .wait = &wait};
  FUZZ_PROMISE(ring_peers_init(&peers, rank, size) == RING_OK);
  ring_status status = ring_rendezvous_run(&rendezvous, &peers, &error);
  bool refused = status == RING_INVALID || status == RING_MISMATCH; /* about encryption */
  FUZZ_PROMISE(status == RING_OK || (refused && error.rank < size));
  for (int i = 0; i < size && status == RING_OK; i++)
    FUZZ_PROMISE(peers.peer[i].port > 0 && strcmp(ring_peers_host(&peers, i), hosts[i]) == 0);
  ring_peers_fini(&peers);
  world_end();
  return 0;
}
