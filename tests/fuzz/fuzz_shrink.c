/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages of other ranks in the consensus of a shrink. The ranks of the input send bytes on links; those that have none
 * refuse connections. The ranks of the new generation are some of the old ones, this rank among them, or there is an
 * error.
 */
#include "comms.h"
#include "shrink/consensus.h"
#include "transport/socket.h"

enum { SIZE = 4 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
  input from = {bytes, length};
  int rank = (int)(input_byte(&from) % SIZE);
  unsigned linked = input_byte(&from);
  ring_comm *comm = make_comm(rank, SIZE);
  ring_roster *roster = ring_roster_make(&comm->peers);
  FUZZ_PROMISE(roster != NULL);
  FUZZ_PROMISE(ring_peers_listen(&roster->peers, ring_socket_listen("fuzz", 0)) == RING_OK);
  world_stays();
  for (int other = 0; other < SIZE; other++) {
    if (other == rank || (linked >> other & 1) == 0) continue;
    input now = input_piece(&from), later = input_piece(&from);
    add_peer_link(&roster->peers, other, ring_link_tcp(world_connection(now, later)));
  }
  ring_wait wait;
  ring_error error = {.status = RING_OK};
  ring_wait_init(&wait, 2, NULL, NULL);
  ring_status status = ring_consensus_run(roster, &wait, &error);
  if (status == RING_OK) {
    FUZZ_PROMISE(ring_generation_has(&roster->generation, rank));
    FUZZ_PROMISE(ring_generation_below(&roster->generation, SIZE) <= SIZE);
  } else {
    FUZZ_PROMISE(error.status == status && error.message[0] != '\0');
    FUZZ_PROMISE(error.rank >= -1 && error.rank < SIZE);
  }
  ring_roster_free(roster);
  ring_comm_free(comm);
  world_end();
  return 0;
}
