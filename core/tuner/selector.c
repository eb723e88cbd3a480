/* SPDX-License-Identifier: Apache-2.0 */
#include "tuner/selector.h"

#include "base/bytes.h"
#include "base/dtype.h"

uint64_t ring_selection_bytes(const ring_call *call, int size) {
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

/* Whether a direct algorithm would need links to too many ranks. */
static bool selector_is_crowded(ring_algorithm algorithm, int size) {
  return algorithm == RING_ALGORITHM_DIRECT && size > RING_DIRECT_RANKS;
}

static uint64_t selector_cost(const ring_selector *selector, ring_algorithm algorithm,
                              const ring_call *call, int size, uint64_t bytes) {
  if (algorithm == RING_ALGORITHM_HIERARCHICAL)
    return ring_cost_of_hierarchical(selector->topology, call->count, bytes);
  if (ring_topology_is_nested(selector->topology))
    return ring_cost_over(selector->topology, algorithm, call->collective, bytes);
  return ring_cost_of(selector->tier, algorithm, call->collective, size, bytes);
}

/* The algorithm of least cost other than `except`; of equal costs the first. False where there
 * is none. */
static bool selector_cheapest(const ring_selector *selector, const ring_call *call, int size,
                              int except, ring_algorithm *algorithm, uint64_t *cost) {
  uint64_t bytes = ring_selection_bytes(call, size);
  bool found = false;
  for (int i = 0; i < RING_ALGORITHMS; i++) {
    ring_algorithm candidate = (ring_algorithm)i;
    if (i == except || !ring_algorithm_fits(candidate, call, selector->topology)) continue;
    if (selector_is_crowded(candidate, size)) continue;
    uint64_t its = selector_cost(selector, candidate, call, size, bytes);
    if (found && its >= *cost) continue;
    found = true;
    *algorithm = candidate;
    *cost = its;
  }
  return found;
}

ring_selection ring_select(const ring_selector *selector, const ring_call *call, int size) {
  ring_selection selection = {.algorithm = RING_ALGORITHM_DISSEMINATION};
  uint64_t bytes = ring_selection_bytes(call, size);
  if (call->collective == RING_COLLECTIVE_MESSAGE) selection.algorithm = RING_ALGORITHM_MESSAGE;
  const ring_rule *rule =
      ring_rules_find(&selector->rules, call, selector->topology, bytes, &selection.unfit);
  selection.ruled = rule != NULL;
  if (rule != NULL) {
    selection.algorithm = (ring_algorithm)rule->algorithm;
    selection.cost = selector_cost(selector, selection.algorithm, call, size, bytes);
  } else {
    selector_cheapest(selector, call, size, -1, &selection.algorithm, &selection.cost);
  }
  return selection;
}

bool ring_select_next(const ring_selector *selector, const ring_call *call, int size,
                      const ring_selection *selection, ring_algorithm *next, uint64_t *cost) {
  return selector_cheapest(selector, call, size, (int)selection->algorithm, next, cost);
}

uint64_t ring_selector_digest(const ring_selector *selector) {
  uint64_t digest = bytes_digest(ring_cost_digest(), (uint64_t)selector->tier);
  if (selector->topology != NULL) digest = ring_topology_digest(selector->topology, digest);
  for (int i = 0; i < selector->rules.count; i++) {
    const ring_rule *rule = &selector->rules.rules[i];
    digest = bytes_digest(digest, rule->collective);
    digest = bytes_digest(digest, rule->algorithm);
    digest = bytes_digest(digest, rule->from);
    digest = bytes_digest(digest, rule->to);
  }
  return digest;
}
