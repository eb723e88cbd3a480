/* SPDX-License-Identifier: Apache-2.0 */
#include "bindings/blame.h"

#include <stdbool.h>
#include <string.h>

#define BLAME_WEIGHT_ENDED 3.5 /* between TIMEOUT and PEER_LOST */

double ring_blame_weight(ring_status status) {
  switch (status) {
  case RING_INVALID:
  case RING_BUSY:
    return 1;
  case RING_AUTH:
  case RING_MISMATCH:
    return 2;
  case RING_TIMEOUT:
    return 3;
  case RING_PEER_LOST:
    return 4;
  case RING_ABORTED:
    return 5;
  default:
    return 0;
  }
}

static double blame_weight_of_name(const char *name) {
#define BLAME_WEIGHT(status, text)                                                                 \
  if (strcmp(name, #status) == 0) return ring_blame_weight(RING_##status);
  RING_STATUS_MAP(BLAME_WEIGHT)
#undef BLAME_WEIGHT
  return strcmp(name, RING_BLAME_ENDED) == 0 ? BLAME_WEIGHT_ENDED : 0;
}

double ring_blame_weight_of_names(const char *const *names, size_t count) {
  double least = 0;
  for (size_t i = 0; i < count; i++) {
    double weight = blame_weight_of_name(names[i]);
    if (i == 0 || weight < least) least = weight;
  }
  return least;
}

static bool blame_before(const ring_blame *one, const ring_blame *other) {
  if (one->weight != other->weight) return one->weight < other->weight;
  if (one->when != other->when) return one->when < other->when;
  return one->rank < other->rank;
}

size_t ring_blame_first(const ring_blame *blames, size_t count) {
  size_t first = 0;
  for (size_t i = 1; i < count; i++)
    if (blame_before(&blames[i], &blames[first])) first = i;
  return first;
}
