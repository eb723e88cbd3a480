/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans: the schedules of recent calls. A schedule holds no pointers, so a training loop that
 * repeats its calls builds each of them once. Which algorithm it is, selector.h says.
 */
#ifndef RING_TUNER_PLAN_H
#define RING_TUNER_PLAN_H

#include "schedule/outline.h"
#include "tuner/selector.h"

enum { RING_PLANS_KEPT = 16 };

typedef struct ring_plan {
  ring_call call; /* sequence 0 */
  uint64_t used;  /* when it was last asked for; 0: never */
  ring_schedule schedule;
} ring_plan;

typedef struct ring_plans {
  ring_selector selector; /* set before the first find */
  ring_plan kept[RING_PLANS_KEPT];
  ring_schedule passing; /* of a call that is not kept: one with counts, a message */
  uint64_t clock;
} ring_plans;

/* Builds a schedule, which is not kept, by an algorithm that fits the call. */
ring_status ring_plan_build(ring_schedule *schedule, const ring_outline *outline,
                            ring_algorithm algorithm);

/* The schedule of a call, valid until the next find. RING_NO_MEMORY when it cannot be built. */
ring_status ring_plan_find(ring_plans *plans, const ring_outline *outline,
                           const ring_schedule **schedule);

void ring_plans_free(ring_plans *plans);

#endif
