/* SPDX-License-Identifier: Apache-2.0
 *
 * Descent: what a rank says in a communicator while one that is split off from it opens. Whom it misses
 * there may still be in the split, because another rank keeps it there, and says so in the parent only.
 * And ranks of the parent may miss this one there. So it hears and sends notices (notice.h) in the
 * parent, too, about whom it waits for in the child, and knows better than from the child alone whom all
 * of them wait for.
 */
#ifndef RING_DESCENT_H
#define RING_DESCENT_H

#include "run.h"

typedef struct ring_descent {
  ring_engine *engine; /* of the parent */
  ring_call call;      /* there: the split */
  const int *ranks;    /* of the child, as the parent counts */
  int size;            /* of it */
  ring_search search;
  ring_notice suspects; /* of this rank, as the parent counts */
  ring_error
      failure; /* a notice of the parent was damaged, or shows that a rank called something else */
} ring_descent;

/* This rank has all that the others tell in a split: takes back that it waits for that, and forgets whom
 * others have suspected before, of whom those that wait on repeat it. */
ring_status ring_descent_begin(ring_descent *descent);

/* After each look at the clock of a run that opens the child, which suspects those of `notice`. Fails
 * with descent->failure. */
ring_status ring_descent_search(ring_run *run, const ring_notice *notice, bool due);

/* Takes back what it has said and shown since. */
void ring_descent_end(ring_descent *descent);

/* "; in the communicator that ... all wait for rank 3 (host)", or nothing. */
void ring_descent_describe(const ring_descent *descent, char *text, size_t size);

#endif
