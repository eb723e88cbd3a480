/* SPDX-License-Identifier: Apache-2.0
 *
 * The algorithms by name, and which algorithm can serve which call. schedule.h describes each,
 * cost.h predicts its time, selector.h chooses.
 */
#ifndef RING_SCHEDULE_ALGORITHM_H
#define RING_SCHEDULE_ALGORITHM_H

#include "base/call.h"
#include "schedule/topology.h"

/* X(name, "its name in explain and in rules"). Of equal costs the first one is chosen. */
#define RING_ALGORITHM_MAP(X)                                                                      \
  X(RING, "ring")                                                                                  \
  X(DIRECT, "direct")                                                                              \
  X(DOUBLING, "doubling")                                                                          \
  X(HALVING, "halving")                                                                            \
  X(HIERARCHICAL, "hierarchical")                                                                  \
  X(TREE, "tree")                                                                                  \
  X(CHAIN, "chain")                                                                                \
  X(BRUCK, "bruck")                                                                                \
  X(PAIRWISE, "pairwise")                                                                          \
  X(DISSEMINATION, "dissemination")                                                                \
  X(MESSAGE, "message")

typedef enum ring_algorithm {
#define RING_ALGORITHM_ENUM(name, text) RING_ALGORITHM_##name,
  RING_ALGORITHM_MAP(RING_ALGORITHM_ENUM)
#undef RING_ALGORITHM_ENUM
#define RING_ALGORITHM_COUNT(name, text) +1
      RING_ALGORITHMS = 0 RING_ALGORITHM_MAP(RING_ALGORITHM_COUNT)
#undef RING_ALGORITHM_COUNT
} ring_algorithm;

/* "ring" for RING_ALGORITHM_RING. Static storage. */
const char *ring_algorithm_name(ring_algorithm algorithm);

/* Whether there is a schedule of the algorithm for the collective. */
bool ring_algorithm_serves(ring_algorithm algorithm, uint8_t collective);

/* Whether the algorithm can serve the call in this topology. Halving keeps partial results in
 * the output, which is too narrow for those of float16 and bfloat16. A hierarchy needs several
 * hosts, and several ranks on some of them. */
bool ring_algorithm_fits(ring_algorithm algorithm, const ring_call *call,
                         const ring_topology *topology);

/* Parses the first `length` bytes of `text` as the name of an algorithm, or of a public
 * collective that has algorithms to choose from. False when there is none. */
bool ring_algorithm_parse(const char *text, size_t length, ring_algorithm *algorithm);
bool ring_algorithm_collective(const char *text, size_t length, uint8_t *collective);

/* Writes "allreduce, reduce, ...", and "direct, doubling, ..." for one collective. */
void ring_algorithm_list_collectives(char *text, size_t capacity);
void ring_algorithm_list(uint8_t collective, char *text, size_t capacity);

#endif
