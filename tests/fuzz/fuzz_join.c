/* SPDX-License-Identifier: Apache-2.0
 *
 * A rank after its handshake with rank 0: the input is its rank and size, the bytes of rank 0 (WELCOME,
 * and later RESULT) and the bytes of the parent (the address table). What was
 * accepted gives every rank a place. The table alone is read first, without anything around it.
 */
#include <unistd.h>

#include "rendezvous/address_table.h"
#include "rendezvous/join.h"
#include "world.h"

enum { SIZE_MOST = 9 };

static void check_places(const ring_peers *peers) {
  for (int rank = 0; rank < peers->size; rank++) {
    const ring_peer *peer = &peers->peer[rank];
    FUZZ_PROMISE(peer->host >= 0 && peer->host < peers->host_count && peer->port > 0);
    FUZZ_PROMISE(ring_peers_host(peers, rank)[0] != '\0');
  }
}

static void read_table(int rank, int size, input table) {
  ring_peers peers;
  uint8_t *copy = malloc(table.left > 0 ? table.left : 1); /* of just its size */
  FUZZ_PROMISE(copy != NULL && ring_peers_init(&peers, rank, size) == RING_OK);
  if (table.left > 0) memcpy(copy, table.at, table.left);
  if (ring_address_table_unpack(&peers, copy, table.left) == RING_OK) check_places(&peers);
  ring_peers_fini(&peers);
  free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
  input from = {bytes, length};
  int size = 2 + (int)input_byte(&from) % (SIZE_MOST - 1);
  int rank = 1 + (int)input_byte(&from) % (size - 1);
  input welcome = input_piece(&from), result = input_piece(&from);
  input table = input_piece(&from), parent = from;
  const input none = {0};
  ring_wait wait;
  ring_peers peers;
  ring_error error = {.rank = -1};
  ring_seal seal = {.sent = 0};
  read_table(rank, size, table);
  world_shakes_hands(false);
  ring_wait_init(&wait, 2, NULL, NULL);
  ring_rendezvous rendezvous = {
      .rank = rank, .size = size, .root_host = "root", .job = "fuzz", .wait = &wait};
  FUZZ_PROMISE(ring_peers_init(&peers, rank, size) == RING_OK);
  world_dials(world_connection(parent, none));
  for (int child = 1; rank + child < size; child *= 2)
    world_accepts(world_connection(none, none), (ring_claim){.purpose = RING_PURPOSE_LINK,
                                                             .rank = rank + child,
                                                             .size = size,
                                                             .epoch = 0x1111111111111111,
                                                             .connections = 1});
  int fd = world_connection(welcome, result);
  ring_status status = ring_rendezvous_join(&rendezvous, &peers, fd, &seal, &error);
  if (status == RING_OK) check_places(&peers);
  close(fd);
  ring_peers_fini(&peers);
  world_end();
  return 0;
}
