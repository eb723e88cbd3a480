/* SPDX-License-Identifier: Apache-2.0
 *
 * The rank at fault. A failure breaks the communicator, so all ranks fail soon after the first. Weights
 * find the first: an error that only reports the loss of another rank weighs most, and an error that
 * has nothing to do with the ring weighs nothing. The least weight is at fault; of equal weights the
 * earliest, of equal times the lowest rank.
 */
#ifndef RING_BINDINGS_BLAME_H
#define RING_BINDINGS_BLAME_H

#include "sparkring.h"

typedef struct ring_blame {
  double weight;
  double when; /* the rank failed, in seconds */
  int rank;
} ring_blame;

double ring_blame_weight(ring_status status);

/* The name of a process that ended without an error, in place of a status: it weighs less than errors that
 * report its loss. */
#define RING_BLAME_ENDED "ENDED"

/* The weight of an error with causes: the least weight among its errors of the ring, which are given by
 * the names of their statuses. 0 where there is none. */
double ring_blame_weight_of_names(const char *const *names, size_t count);

/* The index of the one at fault; `count` is at least 1. */
size_t ring_blame_first(const ring_blame *blames, size_t count);

#endif
