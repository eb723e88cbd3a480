/* SPDX-License-Identifier: Apache-2.0
 *
 * The board: memory of the parent and all workers, on which they write what the others are to know
 * without asking the library that is tested. What concerns one world is wiped before it; what
 * concerns a worker adds up.
 */
#ifndef SOAK_BOARD_H
#define SOAK_BOARD_H

#include <stdatomic.h>

#include "plan.h"

/* After a world, when all that belongs to it has been freed. */
typedef struct board_worker {
  uint64_t calls, bytes, failures,
      timeouts;            /* of this worker and those that had its place before */
  uint64_t resident, heap; /* bytes */
  int descriptors;
  uint64_t worst_ns; /* from a fault, or the call that met it, to its error */
} board_worker;

/* What the victim is doing, so that the moment of a fault that came at any moment is known. */
#define BOARD_DOING_MAP(X)                                                                         \
  X(STARTING, "before opening")                                                                    \
  X(OPENING, "opening")                                                                            \
  X(OPENED, "just opened")                                                                         \
  X(SPLITTING, "splitting")                                                                        \
  X(BETWEEN, "between calls")                                                                      \
  X(REQUESTING, "requests under way")                                                              \
  X(CALLING, "calling")                                                                            \
  X(CLOSING, "closing")                                                                            \
  X(CLOSED, "closed")

typedef enum board_doing {
#define BOARD_DOING_ENUM(name, text) BOARD_##name,
  BOARD_DOING_MAP(BOARD_DOING_ENUM)
#undef BOARD_DOING_ENUM
} board_doing;

/* How a rank heard of the fault, on one communicator. */
typedef struct board_outcome {
  int status;       /* RING_OK: not at all */
  bool named;       /* the victim is */
  uint64_t ns;      /* from the fault, or the call that met it, to the error */
  uint64_t late_ns; /* of these, after it was due */
} board_outcome;

typedef struct board {
  board_worker workers[PLAN_RANKS];
  _Atomic uint64_t struck;      /* when the fault happened, or 0 */
  atomic_int doing, calling;    /* of the victim: a plan_kind, when it calls */
  atomic_bool over;             /* it goes on after the fault */
  atomic_bool told[PLAN_RANKS]; /* a rank has passed its text to an exchange */
  char texts[PLAN_RANKS][256];
  board_outcome outcomes[PLAN_RANKS][2];            /* of a rank, on the world and on its child */
  atomic_int arrived[PLAN_ROUNDS][1 + PLAN_COLORS]; /* ranks at a barrier */
  uint64_t digests[PLAN_ROUNDS][PLAN_RANKS];        /* of results, 0 where there is none */
} board;

board *board_make(void);
void board_wipe(board *of);
void board_free(board *of);

/* What this process holds. descriptors and threads are counts; maps are those of memory without a
 * name, as the library makes it. */
typedef struct board_holdings {
  int descriptors, threads, maps;
} board_holdings;
board_holdings board_count_holdings(void);

/* Whether this process holds no more than before, which then becomes what it holds now. A thread that
 * has been joined stays in the kernel's list for a moment: it may be one too many before and after,
 * so more is only believed when it lasts. */
bool board_holds_no_more(board_holdings *before, board_holdings *now);

/* Bytes that are resident after free memory has been given back, and that are allocated from the
 * heap; 0 where that says nothing. */
uint64_t board_resident(void);
uint64_t board_heap(void);

uint64_t board_now(void);

#endif
