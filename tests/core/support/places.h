/* SPDX-License-Identifier: Apache-2.0
 *
 * Several hosts with several ranks, played on one: ranks whose address is 127.0.0.1, 127.0.0.2 and
 * so on are on different hosts for the core, which listen on these addresses only. A placement is a
 * string with a character for each rank, its host, from 0 on.
 */
#ifndef RING_PLACES_H
#define RING_PLACES_H

#include "ranks.h"

enum { SIZE_MOST = 17 };

/* What all ranks of a run share. */
typedef struct place {
  const char *nodes;
  const char *algorithms;
  int victim;
  size_t count;
  int arrived;
  uint64_t digests[SIZE_MOST];
  double died;
} place;

/* Runs the ranks of with.nodes; each gets a place in shared memory. */
void run_place(rank_function function, place with);

ring_comm *open_at(int rank, int size, const place *place);

/* Waits for all ranks; the number of ranks that have arrived only grows. */
void place_barrier(place *place, int size);

/* Checks that all ranks hold the same bytes. */
void check_same_everywhere(ring_comm *comm, place *place, const void *bytes, size_t length);

ring_explanation explained(ring_comm *comm, const char *collective, size_t bytes, ring_dtype dtype);

#endif
