/* SPDX-License-Identifier: Apache-2.0
 *
 * The fusion plan: which of the ready names run together. Allreduces of one memory, dtype, op and pair of
 * factors do, in the order of their slots, up to the threshold; every other operation runs alone. The plan
 * depends on slots and descriptions only, so all ranks plan alike.
 */
#ifndef RING_REDUCER_FUSION_PLAN_H
#define RING_REDUCER_FUSION_PLAN_H

#include "reducer/negotiation.h"

typedef struct ring_fusion_plan {
  ring_ready *ready;
  size_t count;
  size_t next; /* all before it are planned */
  size_t threshold;
} ring_fusion_plan;

/* Fills `items` (room for all) with the next run, and returns how many; 0 at the end. */
size_t ring_fusion_plan_next(ring_fusion_plan *plan, ring_ready **items);

#endif
