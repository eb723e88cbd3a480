/* SPDX-License-Identifier: Apache-2.0
 *
 * The choice of an algorithm: the user's override or, without one, the least cost. It is a pure
 * function of what all ranks know alike: the call's signature, the number of ranks and which of
 * them are on one host, the slowest link between any two of them, and the overrides. When the
 * communicator opens, a digest of the last three and of the cost table is in the signature of its
 * first barrier, so that ranks which would choose differently get RING_MISMATCH there.
 */
#ifndef RING_CHOICE_H
#define RING_CHOICE_H

#include "cost.h"
#include "override.h"

/* From so many ranks on, an algorithm that needs links to all of them is not chosen any more. */
#define RING_DIRECT_RANKS 16

/* What is the same for all calls of a communicator. */
typedef struct ring_chooser {
  ring_tier tier;
  const ring_layout *layout; /* NULL: one host */
  ring_overrides overrides;
} ring_chooser;

typedef struct ring_choice {
  ring_algorithm algorithm;
  bool overridden;
  bool unfit;    /* there is an override, but its algorithm cannot serve the call */
  uint64_t cost; /* ps */
} ring_choice;

/* The larger of a rank's two buffers, in bytes: what sizes of calls are measured by. */
uint64_t ring_choice_bytes(const ring_call *call, int size);

ring_choice ring_choose(const ring_chooser *chooser, const ring_call *call, int size);

/* The best but the chosen one. False where the collective has no other. */
bool ring_choose_next(const ring_chooser *chooser, const ring_call *call, int size,
                      const ring_choice *choice, ring_algorithm *next, uint64_t *cost);

/* Differs where choosers may choose differently. */
uint64_t ring_chooser_digest(const ring_chooser *chooser);

#endif
