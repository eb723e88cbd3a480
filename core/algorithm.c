/* SPDX-License-Identifier: Apache-2.0 */
#include "algorithm.h"

#include <stdio.h>
#include <string.h>

#include "dtype.h"

/* X(collective, algorithm): all that there is a schedule for. */
#define ALGORITHM_SERVES_MAP(X)                                                                    \
  X(ALLREDUCE, DIRECT)                                                                             \
  X(ALLREDUCE, DOUBLING)                                                                           \
  X(ALLREDUCE, HALVING)                                                                            \
  X(ALLREDUCE, RING)                                                                               \
  X(REDUCE, TREE)                                                                                  \
  X(REDUCE, CHAIN)                                                                                 \
  X(REDUCE_SCATTER, DIRECT)                                                                        \
  X(REDUCE_SCATTER, RING)                                                                          \
  X(BROADCAST, TREE)                                                                               \
  X(BROADCAST, CHAIN)                                                                              \
  X(ALLGATHER, BRUCK)                                                                              \
  X(ALLGATHER, RING)                                                                               \
  X(ALLGATHERV, BRUCK)                                                                             \
  X(ALLGATHERV, RING)                                                                              \
  X(GATHER, TREE)                                                                                  \
  X(GATHER, DIRECT)                                                                                \
  X(GATHERV, TREE)                                                                                 \
  X(GATHERV, DIRECT)                                                                               \
  X(SCATTER, TREE)                                                                                 \
  X(SCATTER, DIRECT)                                                                               \
  X(SCATTERV, TREE)                                                                                \
  X(SCATTERV, DIRECT)                                                                              \
  X(ALLTOALL, BRUCK)                                                                               \
  X(ALLTOALL, PAIRWISE)                                                                            \
  X(ALLTOALLV, PAIRWISE)                                                                           \
  X(BARRIER, DISSEMINATION)

static const struct algorithm_service {
  uint8_t collective, algorithm;
} algorithm_services[] = {
#define ALGORITHM_SERVES_ROW(collective, algorithm)                                                \
  {RING_COLLECTIVE_##collective, RING_ALGORITHM_##algorithm},
    ALGORITHM_SERVES_MAP(ALGORITHM_SERVES_ROW)
#undef ALGORITHM_SERVES_ROW
};

enum { ALGORITHM_SERVICES = sizeof algorithm_services / sizeof algorithm_services[0] };

static const char *const algorithm_names[] = {
#define ALGORITHM_NAME(name, text) text,
    RING_ALGORITHM_MAP(ALGORITHM_NAME)
#undef ALGORITHM_NAME
};

const char *ring_algorithm_name(ring_algorithm algorithm) {
  return algorithm_names[algorithm];
}

bool ring_algorithm_serves(ring_algorithm algorithm, uint8_t collective) {
  for (int i = 0; i < ALGORITHM_SERVICES; i++)
    if (algorithm_services[i].collective == collective &&
        algorithm_services[i].algorithm == (uint8_t)algorithm)
      return true;
  return false;
}

bool ring_algorithm_fits(ring_algorithm algorithm, const ring_call *call) {
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
  for (int i = 0; i < ALGORITHM_SERVICES; i++) {
    *collective = algorithm_services[i].collective;
    if (algorithm_same(ring_collective_name(*collective), text, length)) return true;
  }
  return false;
}

static size_t algorithm_append(char *text, size_t room, size_t length, const char *name) {
  if (length >= room) return length;
  int more = snprintf(text + length, room - length, "%s%s", length > 0 ? ", " : "", name);
  return length + (size_t)more;
}

void ring_algorithm_list_collectives(char *text, size_t room) {
  size_t length = 0;
  text[0] = '\0';
  for (int i = 0; i < ALGORITHM_SERVICES; i++) {
    uint8_t collective = algorithm_services[i].collective;
    if (i == 0 || algorithm_services[i - 1].collective != collective)
      length = algorithm_append(text, room, length, ring_collective_name(collective));
  }
}

void ring_algorithm_list(uint8_t collective, char *text, size_t room) {
  size_t length = 0;
  text[0] = '\0';
  for (int i = 0; i < ALGORITHM_SERVICES; i++)
    if (algorithm_services[i].collective == collective)
      length =
          algorithm_append(text, room, length, algorithm_names[algorithm_services[i].algorithm]);
}
