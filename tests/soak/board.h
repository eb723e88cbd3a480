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

typedef struct board {
  board_worker workers[PLAN_RANKS];
  _Atomic uint64_t struck;                          /* when the fault happened, or 0 */
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

/* Bytes that are resident after free memory has been given back, and that are allocated from the
 * heap; 0 where that says nothing. */
uint64_t board_resident(void);
uint64_t board_heap(void);

uint64_t board_now(void);

#endif
