/* SPDX-License-Identifier: Apache-2.0
 *
 * Topologies: hosts are numbered and counted, and ranks are nested or not.
 */
#include "check.h"
#include "selections.h"

static void test_hosts_are_surveyed(void) {
  static const int labels[] = {4, 2, 4, 0, 2, 4}, numbers[] = {0, 1, 0, 2, 1, 0};
  ring_topology topology;
  CHECK_INT(ring_topology_init(&topology, 6), RING_OK);
  memcpy(topology.nodes, labels, sizeof labels);
  ring_topology_survey(&topology);
  for (int i = 0; i < 6; i++) CHECK_INT(topology.nodes[i], numbers[i]);
  CHECK_INT(topology.hosts, 3);
  CHECK_INT(topology.smallest, 1);
  CHECK_INT(topology.largest, 3);
  CHECK_INT(topology.leaving, 2);
  CHECK(ring_topology_is_nested(&topology));
  CHECK(ring_topology_has_group(&topology, 2) && !ring_topology_has_group(&topology, 1));
  CHECK_INT(topology.inside, RING_TIER_LOOPBACK);
  ring_topology_share(&topology, (const uint8_t[]){1, 1, 1, 0, 1, 1}); /* rank 3 is alone */
  CHECK_INT(topology.inside, RING_TIER_SHM);
  ring_topology_share(&topology, (const uint8_t[]){1, 1, 1, 0, 0, 1});
  CHECK_INT(topology.inside, RING_TIER_LOOPBACK);
  ring_topology_fini(&topology);
  ring_topology one = topology_of((int[HOSTS_MOST]){4}, false);
  ring_topology apart = topology_of((int[HOSTS_MOST]){1, 1, 1}, false);
  CHECK(!ring_topology_is_nested(NULL) && !ring_topology_is_nested(&one));
  CHECK(!ring_topology_is_nested(&apart) && !ring_topology_has_group(&apart, 64));
  ring_topology_fini(&one);
  ring_topology_fini(&apart);
}

int main(void) {
  RUN(test_hosts_are_surveyed);
  return 0;
}
