/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans: which algorithm a call uses, and the schedules of recent calls. A schedule holds no
 * pointers, so a training loop that repeats its calls builds each of them once. The choice depends
 * only on what all ranks know alike: the collective, the size and the number of bytes.
 */
#ifndef RING_PLAN_H
#define RING_PLAN_H

#include "frame.h"
#include "schedule.h"

/* X(name, "what explain and overrides call it") */
#define RING_ALGORITHM_MAP(X)                                                                      \
  X(RING, "ring")                                                                                  \
  X(DIRECT, "direct")                                                                              \
  X(DOUBLING, "doubling")                                                                          \
  X(HALVING, "halving")                                                                            \
  X(TREE, "tree")                                                                                  \
  X(CHAIN, "chain")                                                                                \
  X(BRUCK, "bruck")                                                                                \
  X(PAIRWISE, "pairwise")                                                                          \
  X(DISSEMINATION, "dissemination")                                                                \
  X(MESSAGE, "message")

typedef enum ring_algorithm {
#define RING_ALGORITHM_ENUM(name, text) RING_ALGORITHM_##name,
  RING_ALGORITHM_MAP(RING_ALGORITHM_ENUM)
#undef RING_ALGORITHM_ENUM
} ring_algorithm;

/* What a schedule is made for. */
typedef struct ring_outline {
  ring_call call;
  int rank, size;
  int peer;         /* of a message */
  ring_parts parts; /* of what has parts */
  ring_parts came;  /* of the output of an alltoallv */
} ring_outline;

enum { RING_PLANS_KEPT = 16 };

typedef struct ring_plan {
  ring_call call; /* sequence 0 */
  uint64_t used;  /* when it was last asked for; 0: never */
  ring_schedule schedule;
} ring_plan;

typedef struct ring_plans {
  ring_plan kept[RING_PLANS_KEPT];
  ring_schedule passing; /* of a call that is not kept: one with counts, a message */
  uint64_t clock;
} ring_plans;

ring_algorithm ring_algorithm_choose(const ring_call *call, int size);

/* The schedule of a call, valid until the next find. RING_NO_MEMORY when it cannot be built. */
ring_status ring_plan_find(ring_plans *plans, const ring_outline *outline,
                           const ring_schedule **schedule);

void ring_plans_free(ring_plans *plans);

#endif
