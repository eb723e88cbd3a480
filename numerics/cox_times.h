/* SPDX-License-Identifier: Apache-2.0
 *
 * Times that differ by rounding alone, such as 0.3 and 0.1 + 0.2, are made equal, as by aeqSurv() of R's survival: each
 * time of a chain becomes the first time of its chain. A chain has gaps of at most a tolerance between neighbors. It may
 * reach over the times of many ranks, which have intervals of all different times, in their order.
 */
#ifndef SPARKRING_NUMERICS_COX_TIMES_H
#define SPARKRING_NUMERICS_COX_TIMES_H

#include <stddef.h>

/* The sum of the distances from 0. */
double num_cox_times_sum(const double *times, size_t count);

/* The first time of the chain of each of the sorted times of a rank. `mean` is that of the distances from 0, of all
 * ranks. */
void num_cox_chains(const double *times, size_t count, double mean, double *firsts);

/* The first time of the chain of the first time of this rank. The edge of each rank are NUM_COX_EDGE numbers: 1 for a
 * rank with times, its first and its last time, and the first time of the chain of its last time. `edges` end with the
 * edge of this rank. */
enum { NUM_COX_EDGE = 4 };
double num_cox_chain_before(const double *edges, size_t count, double mean);

#endif
