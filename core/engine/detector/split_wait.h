/* SPDX-License-Identifier: Apache-2.0
 *
 * Split wait: what a rank says in a communicator while one that is split off from it opens. Whom it misses
 * there may still be in the split, because another rank keeps it there, and says so in the parent only.
 * And ranks of the parent may miss this one there. So it hears and sends wait reports (wait report.h) in the
 * parent, too, about whom it waits for in the child, and knows better than from the child alone whom all
 * of them wait for.
 */
#ifndef RING_SPLIT_WAIT_H
#define RING_SPLIT_WAIT_H

#include "engine/run.h"

typedef struct ring_split_wait {
  ring_engine *engine; /* of the parent */
  ring_call call;      /* there: the split */
  const int *ranks;    /* of the child, as the parent counts */
  int size;            /* of it */
  ring_search search;
  ring_wait_report suspects; /* of this rank, as the parent counts */
  ring_error
      failure; /* a wait report of the parent was damaged, or shows that a rank called something else */
} ring_split_wait;

/* This rank has all that the others tell in a split: takes back that it waits for that, and forgets whom
 * others have suspected before, of whom those that wait on repeat it. */
ring_status ring_split_wait_begin(ring_split_wait *split_wait);

/* After each look at the clock of a run that opens the child, which suspects those of `wait report`. Fails
 * with split wait->failure. */
ring_status ring_split_wait_search(ring_run *run, const ring_wait_report *report, bool due);

/* Takes back what it has said and shown since. */
void ring_split_wait_end(ring_split_wait *split_wait);

/* "; in the communicator that ... all wait for rank 3 (host)", or nothing. */
void ring_split_wait_describe(const ring_split_wait *split_wait, char *text, size_t size);

#endif
