/* SPDX-License-Identifier: Apache-2.0
 *
 * The choice of an algorithm: by a rule of the user, else by the least cost. It is a pure function
 * of facts that all ranks know alike: the signature of the call, the number of ranks, the topology,
 * the slowest link between any two ranks, and the rules. The first barrier of a communicator
 * compares a digest of topology, links, rules and cost table, so that ranks which would choose
 * differently get RING_MISMATCH there.
 */
#ifndef RING_TUNER_SELECTOR_H
#define RING_TUNER_SELECTOR_H

#include "tuner/cost.h"
#include "tuner/rules.h"

/* Above so many ranks, direct algorithms, which need links to all of them, are not chosen. */
#define RING_DIRECT_RANKS 16

/* The facts that are the same for all calls of a communicator. */
typedef struct ring_selector {
  ring_tier tier;
  const ring_topology *topology; /* NULL: one host */
  ring_rules rules;
} ring_selector;

typedef struct ring_selection {
  ring_algorithm algorithm;
  bool ruled;
  bool unfit;    /* a rule was skipped: its algorithm cannot serve the call */
  uint64_t cost; /* ps */
} ring_selection;

/* The larger of the two buffers of a rank, in bytes: the size in rules and costs. */
uint64_t ring_selection_bytes(const ring_call *call, int size);

ring_selection ring_select(const ring_selector *selector, const ring_call *call, int size);

/* The best algorithm other than the chosen one. False where the collective has no other. */
bool ring_select_next(const ring_selector *selector, const ring_call *call, int size,
                      const ring_selection *selection, ring_algorithm *next, uint64_t *cost);

/* A digest of everything but the call that decides the choice. */
uint64_t ring_selector_digest(const ring_selector *selector);

#endif
