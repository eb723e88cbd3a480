/* SPDX-License-Identifier: Apache-2.0
 *
 * The workers: processes that the parent holds and that play ranks, world after world. Each has a
 * line to the parent, on which it gets its rank in the next world and answers whether all was well;
 * the line ends when it dies, and then it is replaced. The parent itself never opens a
 * communicator. Between worlds a worker must hold what it held at its beginning: descriptors,
 * threads, memory maps.
 */
#ifndef SOAK_WORKERS_H
#define SOAK_WORKERS_H

#include <sys/types.h>

#include "state.h"

typedef struct worker {
  pid_t process;
  int line;
  int rank; /* in the world that is being played, or -1 */
} worker;

typedef struct workers {
  worker all[PLAN_RANKS];
  state *state;
  plan_bounds bounds;
  double patience;
  bool prints; /* ranks print every error */
  char token[64];
} workers;

bool workers_start(workers *of);

/* Plays a world to its end. False when something was not as it should be. */
bool workers_play(workers *of, const plan_world *world);

/* Ends them and waits for them. */
void workers_end(workers *of);

#endif
