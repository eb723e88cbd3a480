/* SPDX-License-Identifier: Apache-2.0 */
#include "selections.h"

#include "check.h"

const uint8_t collectives[COLLECTIVES] = {
    RING_COLLECTIVE_ALLREDUCE,      RING_COLLECTIVE_REDUCE,    RING_COLLECTIVE_REDUCE_SCATTER,
    RING_COLLECTIVE_BROADCAST,      RING_COLLECTIVE_ALLGATHER, RING_COLLECTIVE_ALLGATHERV,
    RING_COLLECTIVE_GATHER,         RING_COLLECTIVE_GATHERV,   RING_COLLECTIVE_SCATTER,
    RING_COLLECTIVE_SCATTERV,       RING_COLLECTIVE_ALLTOALL,  RING_COLLECTIVE_ALLTOALLV,
    RING_COLLECTIVE_BARRIER,        RING_COLLECTIVE_SCAN,      RING_COLLECTIVE_EXSCAN,
    RING_COLLECTIVE_REDUCE_SCATTERV};

const int nested[NESTED][HOSTS_MOST] = {{2, 2},
                                        {2, 1},
                                        {3, 5},
                                        {8, 8},
                                        {1, 7, 2},
                                        {4, 4, 4},
                                        {2, 2, 2, 2},
                                        {5, 1, 1, 2, 3},
                                        {9, 3},
                                        {16, 16, 16},
                                        {6, 6, 6, 6, 6},
                                        {8, 8, 8, 8, 8, 8},
                                        {2, 2, 2, 2, 2, 2, 2, 2},
                                        {3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3},
                                        {2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2},
                                        {4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4}};

bool is_flat(ring_algorithm algorithm, uint8_t collective) {
  return algorithm != RING_ALGORITHM_HIERARCHICAL && ring_algorithm_serves(algorithm, collective);
}

ring_call call_of(uint8_t collective, ring_dtype dtype, uint64_t count) {
  return (ring_call){.collective = collective, .dtype = (uint8_t)dtype, .count = count};
}

ring_topology topology_of(const int *hosts, bool interleaved) {
  ring_topology topology;
  int left[HOSTS_MOST], size = 0, host = 0;
  memcpy(left, hosts, sizeof left);
  for (int i = 0; i < HOSTS_MOST; i++) size += hosts[i];
  CHECK_INT(ring_topology_init(&topology, size), RING_OK);
  for (int rank = 0; rank < size; rank++) {
    while (left[host] == 0) host = (host + 1) % HOSTS_MOST;
    left[host]--;
    topology.nodes[rank] = size - 1 - host; /* any label will do */
    if (interleaved) host = (host + 1) % HOSTS_MOST;
  }
  ring_topology_survey(&topology);
  return topology;
}

ring_selector selector_of(const char *rules) {
  ring_selector selector = {.tier = RING_TIER_NETWORK};
  ring_error error = {0};
  if (ring_rules_parse(&selector.rules, "algorithms", rules, &error) != RING_OK)
    fprintf(stderr, "%s\n", error.message);
  CHECK_INT(error.status, RING_OK);
  return selector;
}
