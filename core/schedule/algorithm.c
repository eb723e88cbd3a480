/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/algorithm.h"

#include <stdio.h>
#include <string.h>

#include "base/dtype.h"

#define ALGORITHM_BIT(name) (1u << RING_ALGORITHM_##name)

/* X(collective, its algorithms): everything that there is a schedule for. */
#define ALGORITHM_SERVES_MAP(X)                                                                    \
  X(ALLREDUCE, ALGORITHM_BIT(DIRECT) | ALGORITHM_BIT(DOUBLING) | ALGORITHM_BIT(HALVING) |          \
                   ALGORITHM_BIT(HIERARCHICAL) | ALGORITHM_BIT(RING))                              \
  X(REDUCE, ALGORITHM_BIT(TREE) | ALGORITHM_BIT(CHAIN))                                            \
  X(REDUCE_SCATTER, ALGORITHM_BIT(DIRECT) | ALGORITHM_BIT(RING))                                   \
  X(BROADCAST, ALGORITHM_BIT(TREE) | ALGORITHM_BIT(CHAIN))                                         \
  X(ALLGATHER, ALGORITHM_BIT(BRUCK) | ALGORITHM_BIT(RING))                                         \
  X(ALLGATHERV, ALGORITHM_BIT(BRUCK) | ALGORITHM_BIT(RING))                                        \
  X(GATHER, ALGORITHM_BIT(TREE) | ALGORITHM_BIT(DIRECT))                                           \
  X(GATHERV, ALGORITHM_BIT(TREE) | ALGORITHM_BIT(DIRECT))                                          \
  X(SCATTER, ALGORITHM_BIT(TREE) | ALGORITHM_BIT(DIRECT))                                          \
  X(SCATTERV, ALGORITHM_BIT(TREE) | ALGORITHM_BIT(DIRECT))                                         \
  X(ALLTOALL, ALGORITHM_BIT(BRUCK) | ALGORITHM_BIT(PAIRWISE))                                      \
  X(ALLTOALLV, ALGORITHM_BIT(PAIRWISE))                                                            \
  X(BARRIER, ALGORITHM_BIT(DISSEMINATION))                                                         \
  X(SCAN, ALGORITHM_BIT(DOUBLING) | ALGORITHM_BIT(CHAIN))                                          \
  X(EXSCAN, ALGORITHM_BIT(DOUBLING) | ALGORITHM_BIT(CHAIN))                                        \
  X(REDUCE_SCATTERV, ALGORITHM_BIT(DIRECT) | ALGORITHM_BIT(RING))

static const unsigned algorithm_sets[UINT8_MAX + 1] = {
#define ALGORITHM_SET(collective, set) [RING_COLLECTIVE_##collective] = (set),
    ALGORITHM_SERVES_MAP(ALGORITHM_SET)
#undef ALGORITHM_SET
};

static const uint8_t algorithm_collectives[] = {
#define ALGORITHM_COLLECTIVE(collective, set) RING_COLLECTIVE_##collective,
    ALGORITHM_SERVES_MAP(ALGORITHM_COLLECTIVE)
#undef ALGORITHM_COLLECTIVE
};

enum { ALGORITHM_COLLECTIVES = sizeof algorithm_collectives / sizeof algorithm_collectives[0] };

static const char *const algorithm_names[] = {
#define ALGORITHM_NAME(name, text) text,
    RING_ALGORITHM_MAP(ALGORITHM_NAME)
#undef ALGORITHM_NAME
};

const char *ring_algorithm_name(ring_algorithm algorithm) {
  return algorithm_names[algorithm];
}

bool ring_algorithm_serves(ring_algorithm algorithm, uint8_t collective) {
  return (algorithm_sets[collective] >> algorithm & 1) != 0;
}

bool ring_algorithm_fits(ring_algorithm algorithm, const ring_call *call,
                         const ring_topology *topology) {
  if (algorithm == RING_ALGORITHM_HIERARCHICAL && !ring_topology_is_nested(topology)) return false;
  if (algorithm == RING_ALGORITHM_HALVING && ring_dtype_is_half((ring_dtype)call->dtype))
    return false;
  return ring_algorithm_serves(algorithm, call->collective);
}

/* ---- Names -------------------------------------------------------------------------------- */

static bool algorithm_same(const char *name, const char *text, size_t length) {
  return strlen(name) == length && memcmp(name, text, length) == 0;
}

bool ring_algorithm_parse(const char *text, size_t length, ring_algorithm *algorithm) {
  for (int i = 0; i < RING_ALGORITHMS; i++) {
    *algorithm = (ring_algorithm)i;
    if (algorithm_same(algorithm_names[i], text, length)) return true;
  }
  return false;
}

bool ring_algorithm_collective(const char *text, size_t length, uint8_t *collective) {
  for (int i = 0; i < ALGORITHM_COLLECTIVES; i++) {
    *collective = algorithm_collectives[i];
    if (algorithm_same(ring_collective_name(*collective), text, length)) return true;
  }
  return false;
}

static size_t algorithm_append(char *text, size_t capacity, size_t length, const char *name) {
  if (length >= capacity) return length;
  int more = snprintf(text + length, capacity - length, "%s%s", length > 0 ? ", " : "", name);
  return length + (size_t)more;
}

void ring_algorithm_list_collectives(char *text, size_t capacity) {
  size_t length = 0;
  text[0] = '\0';
  for (int i = 0; i < ALGORITHM_COLLECTIVES; i++)
    length =
        algorithm_append(text, capacity, length, ring_collective_name(algorithm_collectives[i]));
}

void ring_algorithm_list(uint8_t collective, char *text, size_t capacity) {
  size_t length = 0;
  text[0] = '\0';
  for (int i = 0; i < RING_ALGORITHMS; i++)
    if (ring_algorithm_serves((ring_algorithm)i, collective))
      length = algorithm_append(text, capacity, length, algorithm_names[i]);
}
