/* SPDX-License-Identifier: Apache-2.0
 *
 * Communicators for targets: of few ranks on one host, with links that the target makes. They time out
 * after two seconds, which pass while they wait (world.h).
 */
#ifndef FUZZ_COMMS_H
#define FUZZ_COMMS_H

#include "api/comm_lifecycle.h"
#include "peers/wait_report.h"
#include "world.h"

static inline ring_comm *make_comm(int rank, int size) {
  ring_comm *comm = ring_comm_alloc(rank, size, 2);
  FUZZ_PROMISE(comm != NULL);
  ring_world *world = ring_world_make(NULL);
  FUZZ_PROMISE(world != NULL);
  ring_comm_settle(comm, world);
  for (int i = 0; i < size; i++) {
    FUZZ_PROMISE(ring_peers_place(&comm->peers, i, "fuzz", 4242) == RING_OK);
    comm->topology.nodes[i] = 0;
  }
  ring_topology_survey(&comm->topology);
  comm->native.plans.selector.topology = &comm->topology;
  comm->native.plans.selector.tier = RING_TIER_LOOPBACK;
  comm->peers.cores = RING_CORES_CROWDED; /* does not spin */
  return comm;
}

static inline void add_peer_link(ring_peers *peers, int rank, ring_link *link) {
  FUZZ_PROMISE(link != NULL);
  peers->peer[rank].link = link;
  peers->peer[rank].outbox = calloc(1, sizeof *peers->peer[rank].outbox);
  FUZZ_PROMISE(peers->peer[rank].outbox != NULL);
  peers->linked[peers->linked_count++] = rank;
}

static inline void add_link(ring_comm *comm, int rank, ring_link *link) {
  add_peer_link(&comm->peers, rank, link);
}

/* An error names a rank that exists, or none. */
static inline void check_error(const ring_comm *comm, ring_status status) {
  const ring_error *error = ring_comm_error(comm);
  FUZZ_PROMISE(error->status == status && error->message[0] != '\0');
  FUZZ_PROMISE(error->rank >= -1 && error->rank < comm->peers.size);
  FUZZ_PROMISE(strlen(error->message) < sizeof error->message);
}

#endif
