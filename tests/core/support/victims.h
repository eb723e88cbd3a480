/* SPDX-License-Identifier: Apache-2.0
 *
 * Jobs in which one rank, the victim, is killed or fails, and the other ranks detect it.
 */
#ifndef RING_VICTIMS_H
#define RING_VICTIMS_H

#include <stdbool.h>

#include "ranks.h"

/* Shared by the ranks of a test. */
typedef struct failing {
  int arrived, over; /* ranks that have reached the beginning, or the end */
  int victim;
  bool arena, large;
  double since; /* when the victim failed */
  int failed;   /* ranks that have failed */
} failing;

/* Runs ranks as run_ranks_with does, and checks that the victim is killed and no other rank is. The value
 * begins with a failing. */
void run_victim_with(int size, rank_function function, const void *value, size_t length);
#define RUN_WITH_VICTIM(size, function, ...)                                                       \
  run_victim_with(size, function, &(__VA_ARGS__), sizeof(__VA_ARGS__))

/* Kills the calling process from a thread of its own, at any point, and writes down when. */
void be_killed_soon(failing *f);

/* Checks how a call has failed, that every later call fails in the same way, and frees. */
void expect_end(ring_comm *comm, ring_status status, ring_status expected, int fault,
                const char *text);

#endif
