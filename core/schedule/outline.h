/* SPDX-License-Identifier: Apache-2.0
 *
 * The outline of a call: everything that decides how it is carried out, and no buffers. An algorithm
 * is chosen, a schedule built and a backend asked by it.
 */
#ifndef RING_SCHEDULE_OUTLINE_H
#define RING_SCHEDULE_OUTLINE_H

#include "base/call.h"
#include "schedule/schedule.h"

typedef struct ring_outline {
  ring_call call;
  int rank, size;
  int peer;            /* of a message: its other rank */
  const int *nodes;    /* by rank: its host; read by hierarchical allreduce */
  ring_parts parts;    /* of the buffer that is cut into one part a rank */
  ring_parts received; /* of the output of an alltoallv, whose input has `parts` */
} ring_outline;

#endif
