/* SPDX-License-Identifier: Apache-2.0
 *
 * The algorithms by name, and which of them can serve which call. What each does is said where its
 * schedule is built (schedule.h), what it costs in cost.h, which one a call gets in selector.h.
 */
#ifndef RING_SCHEDULE_ALGORITHM_H
#define RING_SCHEDULE_ALGORITHM_H

#include "base/call.h"
#include "schedule/topology.h"

/* X(name, "what explain and rules call it"). Of equal costs the first one is chosen. */
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

/* The algorithms of a collective are those that it has a schedule for. */
bool ring_algorithm_serves(ring_algorithm algorithm, uint8_t collective);

/* Whether it can serve this very call of ranks in this topology, too. Halving keeps partial results
 * in the output, where those of float16 and bfloat16 have no room; a hierarchy needs several
 * hosts, and several ranks on some of them. */
bool ring_algorithm_fits(ring_algorithm algorithm, const ring_call *call,
                         const ring_topology *topology);

/* The algorithm or collective whose name is the first `length` bytes of `text`. A collective is one
 * that the user calls and that has algorithms to choose from. False when there is none. */
bool ring_algorithm_parse(const char *text, size_t length, ring_algorithm *algorithm);
bool ring_algorithm_collective(const char *text, size_t length, uint8_t *collective);

/* "allreduce, reduce, ...", and "direct, doubling, ..." of one collective. */
void ring_algorithm_list_collectives(char *text, size_t capacity);
void ring_algorithm_list(uint8_t collective, char *text, size_t capacity);

#endif
