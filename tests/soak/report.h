/* SPDX-License-Identifier: Apache-2.0
 *
 * What the soak prints every minute and at its end, and whether memory has grown: that of the elders,
 * who live through all worlds. It has where even the least of the last quarter of the time is more
 * than the most of the beginning, which is the first two minutes, or half the time when that is
 * less.
 *
 * A machine that gives a rank no time for a second makes single worlds late, for which there is
 * --patience. Besides, nearly all ranks have to get the error within a second after one was killed, and within
 * a second of the deadline after one was stopped, if there are enough such worlds.
 */
#ifndef SOAK_REPORT_H
#define SOAK_REPORT_H

#include "tally.h"

enum { REPORT_STEPS = 501 };

/* Bytes of one elder's resident memory or heap. */
typedef struct report_memory {
  uint64_t early_most, late_least;
} report_memory;

typedef struct report {
  const state *state;
  plan_family storm; /* the fault that every world has, or none */
  double seconds;    /* that the soak is to last */
  uint64_t begun, printed;
  uint64_t worlds, repeated, faults[PLAN_FAULTS];
  report_memory resident[PLAN_ELDERS], heap[PLAN_ELDERS];
  uint64_t detected[PLAN_FAMILIES]
                   [REPORT_STEPS]; /* worlds, by how late the last detected it; in the last: more */
  tally tally;
} report;

void report_begin(report *of, const state *state, plan_family storm, double seconds);

double report_elapsed(const report *of);

/* After every world; prints about once a minute. */
void report_add(report *of, const plan_world *world);

/* The last lines. False when memory has grown, or too few detected soon that one was killed or stopped. */
bool report_end(report *of);

#endif
