/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans: a cache of the schedules of recent calls. A schedule holds no pointers, so a training loop
 * that repeats its calls builds each schedule once. selector.h chooses the algorithm.
 */
#ifndef RING_TUNER_PLAN_H
#define RING_TUNER_PLAN_H

#include "schedule/outline.h"
#include "tuner/selector.h"

enum { RING_PLANS_KEPT = 16 };

typedef struct ring_plan {
  ring_call call; /* sequence 0 */
  uint64_t used;  /* value of `clock` at its last use; 0: empty */
  ring_schedule schedule;
} ring_plan;

typedef struct ring_plans {
  ring_selector selector; /* set before the first find */
  ring_plan kept[RING_PLANS_KEPT];
  int latest;            /* the kept plan that was found last; a loop repeats its call */
  ring_schedule passing; /* of the last call that is not cached: with counts, or a message */
  uint64_t clock;
} ring_plans;

/* Builds a schedule by an algorithm that fits the call. The cache is not involved. */
ring_status ring_plan_build(ring_schedule *schedule, const ring_outline *outline,
                            ring_algorithm algorithm);

/* Finds or builds the schedule of a call. It is valid until the next find. RING_NO_MEMORY when
 * it cannot be built. */
ring_status ring_plan_find(ring_plans *plans, const ring_outline *outline,
                           const ring_schedule **schedule);

void ring_plans_free(ring_plans *plans);

#endif
