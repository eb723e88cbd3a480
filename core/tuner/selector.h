/* SPDX-License-Identifier: Apache-2.0
 *
 * The choice of an algorithm: the user's rule or, without one, the least cost. It is a pure
 * function of what all ranks know alike: the call's signature, the number of ranks and which of
 * them are on one host, the slowest link between any two of them, and the rules. When the
 * communicator opens, a digest of the last three and of the cost table is in the signature of its
 * first barrier, so that ranks which would choose differently get RING_MISMATCH there.
 */
#ifndef RING_TUNER_SELECTOR_H
#define RING_TUNER_SELECTOR_H

#include "tuner/cost.h"
#include "tuner/rules.h"

/* From so many ranks on, an algorithm that needs links to all of them is not chosen any more. */
#define RING_DIRECT_RANKS 16

/* What is the same for all calls of a communicator. */
typedef struct ring_selector {
  ring_tier tier;
  const ring_topology *topology; /* NULL: one host */
  ring_rules rules;
} ring_selector;

typedef struct ring_selection {
  ring_algorithm algorithm;
  bool ruled;
  bool unfit;    /* there is an rule, but its algorithm cannot serve the call */
  uint64_t cost; /* ps */
} ring_selection;

/* The larger of a rank's two buffers, in bytes: what sizes of calls are measured by. */
uint64_t ring_selection_bytes(const ring_call *call, int size);

ring_selection ring_select(const ring_selector *selector, const ring_call *call, int size);

/* The best but the chosen one. False where the collective has no other. */
bool ring_select_next(const ring_selector *selector, const ring_call *call, int size,
                      const ring_selection *selection, ring_algorithm *next, uint64_t *cost);

/* Differs where choosers may choose differently. */
uint64_t ring_selector_digest(const ring_selector *selector);

#endif
