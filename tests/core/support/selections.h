/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of the tuner choose from: calls, topologies, and selectors with rules.
 */
#ifndef RING_SELECTIONS_H
#define RING_SELECTIONS_H

#include "tuner/plan.h"

enum { COLLECTIVES = 16 };
extern const uint8_t collectives[COLLECTIVES];

/* Whether an algorithm serves the collective and costs the same wherever its ranks are. */
bool is_flat(ring_algorithm algorithm, uint8_t collective);

ring_call call_of(uint8_t collective, ring_dtype dtype, uint64_t count);

/* Ranks on each host; 0 ends the list. */
enum { HOSTS_MOST = 16, NESTED_MOST = 64, NESTED = 16 };
extern const int nested[NESTED][HOSTS_MOST];

/* Ranks of hosts lie side by side, or, interleaved, as far apart as they can. */
ring_topology topology_of(const int *hosts, bool interleaved);

/* A selector over a network, with rules. */
ring_selector selector_of(const char *rules);

#endif
