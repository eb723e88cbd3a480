/* SPDX-License-Identifier: Apache-2.0
 *
 * Autotuning of threshold and cycle time, by a search of one of them after the other. Rank 0 measures: a step
 * ends when a name comes for the second time, and a sample is the median of the bytes per second of ten steps.
 * A pair of settings replaces the best one where it is 3 % faster. The next pair is broadcast in a cycle whose
 * flag is set, and all ranks use it from there on.
 */
#ifndef RING_REDUCER_AUTOTUNE_H
#define RING_REDUCER_AUTOTUNE_H

#include <stdio.h>

#include "reducer/negotiation.h"

enum { AUTOTUNE_STEPS = 10 };

#define AUTOTUNE_CYCLE_MOST UINT64_C(5000000) /* the longest cycle time, in nanoseconds */

typedef struct ring_autotune_pair {
  uint64_t threshold;  /* bytes */
  uint64_t cycle_time; /* nanoseconds */
} ring_autotune_pair;

typedef struct ring_autotune {
  bool runs;  /* on rank 0 only */
  bool moves; /* the next cycle broadcasts `now` */
  FILE *log;
  ring_autotune_pair now, best;
  double best_rate; /* bytes per second */
  size_t tried;     /* samples */
  uint64_t begun;   /* of the step */
  uint64_t bytes;   /* completed in the step */
  uint64_t step;    /* its number; ring_entry.step has that of the last time the entry was ready */
  int steps;        /* in the sample; the first one is not measured */
  double rates[AUTOTUNE_STEPS];
} ring_autotune;

/* Begins to measure with `now`, on rank 0. Appends a line for each sample to the file `log`, unless it is NULL.
 * 0, or the errno of a file that cannot be opened. */
int ring_autotune_begin(ring_autotune *autotune, ring_autotune_pair now, const char *log);

/* Counts the names that a cycle has completed. */
void ring_autotune_count(ring_autotune *autotune, const ring_negotiation *negotiation);

/* Broadcasts the pair of rank 0 into `now` of all ranks, and checks it. Collective. */
ring_status ring_autotune_move(ring_autotune *autotune, ring_comm *comm);

/* Closes the file. */
void ring_autotune_end(ring_autotune *autotune);

#endif
