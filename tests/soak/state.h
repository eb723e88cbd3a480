/* SPDX-License-Identifier: Apache-2.0
 *
 * The state that the parent and all workers share: each process writes to it the facts that the others
 * need, without the library that is tested. The fields of one world are cleared before it; those of a
 * worker add up.
 */
#ifndef SOAK_STATE_H
#define SOAK_STATE_H

#include <stdatomic.h>

#include "plan.h"

/* After a world, when all that belongs to it has been freed. */
typedef struct state_worker {
  uint64_t calls, bytes, failures,
      timeouts;            /* of this worker and those that had its place before */
  uint64_t resident, heap; /* bytes */
  int descriptors;
  uint64_t worst_ns; /* from a fault, or the call that detected it, to its error */
} state_worker;

/* What the victim is doing, so that the moment of a fault that came at any moment is known. */
#define STATE_DOING_MAP(X)                                                                         \
  X(STARTING, "before opening")                                                                    \
  X(OPENING, "opening")                                                                            \
  X(OPENED, "just opened")                                                                         \
  X(SPLITTING, "splitting")                                                                        \
  X(BETWEEN, "between calls")                                                                      \
  X(REQUESTING, "requests under way")                                                              \
  X(CALLING, "calling")                                                                            \
  X(CLOSING, "closing")                                                                            \
  X(CLOSED, "closed")

typedef enum state_doing {
#define STATE_DOING_ENUM(name, text) STATE_##name,
  STATE_DOING_MAP(STATE_DOING_ENUM)
#undef STATE_DOING_ENUM
} state_doing;

/* How a rank got the error of the fault, on one communicator. */
typedef struct state_outcome {
  int status;       /* RING_OK: not at all */
  bool named;       /* the victim is */
  uint64_t ns;      /* from the fault, or the call that detected it, to the error */
  uint64_t late_ns; /* of these, after it was due */
} state_outcome;

typedef struct state {
  state_worker workers[PLAN_RANKS];
  _Atomic uint64_t struck;        /* when the fault happened, or 0 */
  atomic_int doing, calling;      /* of the victim: a plan_kind, when it calls */
  atomic_bool over;               /* it goes on after the fault */
  atomic_bool passed[PLAN_RANKS]; /* a rank has passed its text to an exchange */
  char texts[PLAN_RANKS][256];
  state_outcome outcomes[PLAN_RANKS][2];            /* of a rank, on the world and on its child */
  atomic_int arrived[PLAN_ROUNDS][1 + PLAN_COLORS]; /* ranks at a barrier */
  uint64_t digests[PLAN_ROUNDS][PLAN_RANKS];        /* of results, 0 where there is none */
} state;

state *state_make(void);
void state_wipe(state *of);
void state_free(state *of);

/* What this process holds. descriptors and threads are counts; maps are those of memory without a
 * name, as the library makes it. */
typedef struct state_holdings {
  int descriptors, threads, maps;
} state_holdings;
state_holdings state_count_holdings(void);

/* Whether this process holds no more than before, which then becomes what it holds now. A thread that
 * has been joined stays in the kernel's list for a moment: it may be one too many before and after,
 * so more is only believed when it lasts. */
bool state_holds_no_more(state_holdings *before, state_holdings *now);

/* Bytes that are resident after free memory has been given back, and that are allocated from the
 * heap; 0 if that shows nothing. */
uint64_t state_resident(void);
uint64_t state_heap(void);

uint64_t state_now(void);

#endif
