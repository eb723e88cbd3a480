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
  const int *ranks;    /* of the child, as the parent counts */
  ring_call call;      /* in the parent: the split */
  ring_search search;
  ring_notice suspects; /* of this rank, as the parent counts */
  ring_error failure;   /* of the parent, which was heard there */
} ring_descent;

/* After each look at the clock of a run that opens a child, which suspects those of `notice`. Fails when
 * the parent has. */
ring_status ring_descent_search(ring_run *run, const ring_notice *notice, bool due);

/* Takes back what it has shown to the ranks of this host. */
void ring_descent_end(const ring_descent *descent);

#endif
