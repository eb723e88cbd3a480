/* SPDX-License-Identifier: Apache-2.0
 *
 * The tally: what came of the faults, by what the victim was doing and over which links, and, of
 * calls, by which collective. A rank that closed without an error did not need the victim any more.
 */
#ifndef SOAK_TALLY_H
#define SOAK_TALLY_H

#include "state.h"

enum { TALLY_ROWS = 256 };

/* Worlds, and the errors of their ranks; named: how many of these named all that
 * they have to (fault.h). */
typedef struct tally_row {
  char name[64];
  uint64_t worlds, lost, timeouts, others, named, nothing;
  uint64_t lost_ns, timeout_ns;                   /* the slowest */
  uint64_t stopped, aborted, differently, unhurt; /* the error of the victim when it went on */
} tally_row;

typedef struct tally {
  tally_row rows[TALLY_ROWS];
  int count;
} tally;

/* After a world with a fault. */
void tally_add(tally *of, const plan_world *world, const state *state);

void tally_print(const tally *of);

#endif
