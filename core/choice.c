/* SPDX-License-Identifier: Apache-2.0 */
#include "choice.h"

#include "bytes.h"
#include "dtype.h"

uint64_t ring_choice_bytes(const ring_call *call, int size) {
  uint64_t bytes = call->count * ring_dtype_size((ring_dtype)call->dtype);
  switch (call->collective) {
  case RING_COLLECTIVE_REDUCE_SCATTER:
  case RING_COLLECTIVE_ALLGATHER:
  case RING_COLLECTIVE_GATHER:
  case RING_COLLECTIVE_SCATTER:
  case RING_COLLECTIVE_ALLTOALL:
    return bytes * (uint64_t)size;
  case RING_COLLECTIVE_OPEN:
  case RING_COLLECTIVE_CLOSE:
  case RING_COLLECTIVE_BARRIER:
    return 0;
  default:
    return bytes;
  }
}

/* Straight to all others: every rank's links, or the root's, would be as many as the ranks. */
static bool choice_is_crowded(ring_algorithm algorithm, int size) {
  return algorithm == RING_ALGORITHM_DIRECT && size > RING_DIRECT_RANKS;
}

static uint64_t choice_cost(const ring_chooser *chooser, ring_algorithm algorithm,
                            const ring_call *call, int size, uint64_t bytes) {
  if (algorithm == RING_ALGORITHM_HIERARCHICAL)
    return ring_cost_of_hierarchical(chooser->layout, call->count, bytes);
  if (ring_layout_is_nested(chooser->layout))
    return ring_cost_over(chooser->layout, algorithm, call->collective, bytes);
  return ring_cost_of(chooser->tier, algorithm, call->collective, size, bytes);
}

/* The algorithm of least cost that is not `except`, the first one where costs are the same. False
 * where there is none. */
static bool choice_cheapest(const ring_chooser *chooser, const ring_call *call, int size,
                            int except, ring_algorithm *algorithm, uint64_t *cost) {
  uint64_t bytes = ring_choice_bytes(call, size);
  bool found = false;
  for (int i = 0; i < RING_ALGORITHMS; i++) {
    ring_algorithm candidate = (ring_algorithm)i;
    if (i == except || !ring_algorithm_fits(candidate, call, chooser->layout)) continue;
    if (choice_is_crowded(candidate, size)) continue;
    uint64_t its = choice_cost(chooser, candidate, call, size, bytes);
    if (found && its >= *cost) continue;
    found = true;
    *algorithm = candidate;
    *cost = its;
  }
  return found;
}

ring_choice ring_choose(const ring_chooser *chooser, const ring_call *call, int size) {
  ring_choice choice = {.algorithm = RING_ALGORITHM_DISSEMINATION};
  uint64_t bytes = ring_choice_bytes(call, size);
  if (call->collective == RING_COLLECTIVE_MESSAGE) choice.algorithm = RING_ALGORITHM_MESSAGE;
  const ring_override *rule =
      ring_overrides_find(&chooser->overrides, call, chooser->layout, bytes, &choice.unfit);
  choice.overridden = rule != NULL;
  if (rule != NULL) {
    choice.algorithm = (ring_algorithm)rule->algorithm;
    choice.cost = choice_cost(chooser, choice.algorithm, call, size, bytes);
  } else {
    choice_cheapest(chooser, call, size, -1, &choice.algorithm, &choice.cost);
  }
  return choice;
}

bool ring_choose_next(const ring_chooser *chooser, const ring_call *call, int size,
                      const ring_choice *choice, ring_algorithm *next, uint64_t *cost) {
  return choice_cheapest(chooser, call, size, (int)choice->algorithm, next, cost);
}

uint64_t ring_chooser_digest(const ring_chooser *chooser) {
  uint64_t digest = bytes_digest(ring_cost_digest(), (uint64_t)chooser->tier);
  if (chooser->layout != NULL) digest = ring_layout_digest(chooser->layout, digest);
  for (int i = 0; i < chooser->overrides.count; i++) {
    const ring_override *rule = &chooser->overrides.rules[i];
    digest = bytes_digest(digest, rule->collective);
    digest = bytes_digest(digest, rule->algorithm);
    digest = bytes_digest(digest, rule->from);
    digest = bytes_digest(digest, rule->to);
  }
  return digest;
}
