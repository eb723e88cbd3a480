/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/topology.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

ring_status ring_topology_init(ring_topology *topology, int size) {
  *topology = (ring_topology){.size = size, .inside = RING_TIER_LOOPBACK};
  topology->nodes = calloc(2 * (size_t)size, sizeof *topology->nodes);
  if (topology->nodes == NULL) return RING_NO_MEMORY;
  topology->ranks = topology->nodes + size;
  return RING_OK;
}

void ring_topology_fini(ring_topology *topology) {
  free(topology->nodes);
  *topology = (ring_topology){0};
}

/* Until the hosts are counted, `ranks` holds by label the number of its host, plus one. */
static void topology_number(ring_topology *topology) {
  for (int rank = 0; rank < topology->size; rank++) {
    int *number = &topology->ranks[topology->nodes[rank]];
    if (*number == 0) *number = ++topology->hosts;
    topology->nodes[rank] = *number - 1;
  }
}

static void topology_leave(ring_topology *topology) {
  const int *nodes = topology->nodes;
  for (int rank = 0; rank < topology->size; rank++) {
    int next = rank + 1 < topology->size ? rank + 1 : 0;
    if (nodes[next] == nodes[rank]) continue;
    int leaving = ++topology->ranks[nodes[rank]];
    if (leaving > topology->leaving) topology->leaving = leaving;
  }
}

void ring_topology_survey(ring_topology *topology) {
  size_t bytes = (size_t)topology->size * sizeof *topology->ranks;
  topology_number(topology);
  memset(topology->ranks, 0, bytes);
  topology_leave(topology);
  memset(topology->ranks, 0, bytes);
  for (int rank = 0; rank < topology->size; rank++) topology->ranks[topology->nodes[rank]]++;
  topology->smallest = topology->size;
  for (int host = 0; host < topology->hosts; host++) {
    int ranks = topology->ranks[host];
    if (ranks < topology->smallest) topology->smallest = ranks;
    if (ranks > topology->largest) topology->largest = ranks;
  }
}

void ring_topology_share(ring_topology *topology, const uint8_t *has) {
  topology->inside = RING_TIER_SHM;
  for (int rank = 0; rank < topology->size; rank++)
    if (topology->ranks[topology->nodes[rank]] > 1 && has[rank] == 0)
      topology->inside = RING_TIER_LOOPBACK;
}

bool ring_topology_has_group(const ring_topology *topology, int most) {
  for (int host = 0; host < topology->hosts; host++)
    if (topology->ranks[host] > 1 && topology->ranks[host] <= most) return true;
  return false;
}

bool ring_topology_is_nested(const ring_topology *topology) {
  return topology != NULL && topology->hosts > 1 && topology->largest > 1;
}

uint64_t ring_topology_digest(const ring_topology *topology, uint64_t digest) {
  for (int rank = 0; rank < topology->size; rank++)
    digest = bytes_digest(digest, (uint64_t)topology->nodes[rank]);
  return digest;
}
