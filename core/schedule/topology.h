/* SPDX-License-Identifier: Apache-2.0
 *
 * The topology of a communicator: which ranks share a host. All ranks know it alike from the
 * address table. A digest of it is in the signature of the first barrier.
 */
#ifndef RING_SCHEDULE_TOPOLOGY_H
#define RING_SCHEDULE_TOPOLOGY_H

#include <stdbool.h>
#include <stdint.h>

#include "sparkring.h"

/* The slowest kind of link between any two ranks. */
typedef enum ring_tier { RING_TIER_SHM, RING_TIER_LOOPBACK, RING_TIER_NETWORK } ring_tier;

typedef struct ring_topology {
  int size, hosts;
  int smallest, largest; /* ranks on the host with the fewest and on that with the most */
  int leaving;           /* the most ranks of a host whose next rank is on another one */
  ring_tier inside;      /* of links within hosts */
  int *nodes; /* by rank: its host; hosts are numbered in the order of their first ranks */
  int *ranks; /* by host: how many */
} ring_topology;

/* Allocates for `size` ranks. RING_OK or RING_NO_MEMORY. */
ring_status ring_topology_init(ring_topology *topology, int size);

void ring_topology_fini(ring_topology *topology);

/* Numbers and counts the hosts. nodes[r] must be a label, from 0 to size-1, of the host of rank
 * r. */
void ring_topology_survey(ring_topology *topology);

/* Records which ranks have mapped the memory of their host: `inside` becomes shm where all have. */
void ring_topology_share(ring_topology *topology, const uint8_t *has);

/* Whether some host has several ranks, but not more than `most`. */
bool ring_topology_has_group(const ring_topology *topology, int most);

/* Whether there are several hosts, and several ranks on some of them. False for NULL. */
bool ring_topology_is_nested(const ring_topology *topology);

/* Continues a digest. */
uint64_t ring_topology_digest(const ring_topology *topology, uint64_t digest);

#endif
