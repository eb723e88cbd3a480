/* SPDX-License-Identifier: Apache-2.0
 *
 * Records of a proportional hazards model, by numerics/cox_records.h: see R/coxph-records.R. Records are the columns of
 * a matrix. Keys are the first two numbers of the columns of a matrix, or the numbers of a vector.
 */
#ifndef SPARKRING_RECORDS_H
#define SPARKRING_RECORDS_H

#include <Rinternals.h>

#include "numerics/cox_records.h"

/* The sum of the distances of each column of `x` from its mean. `weights` has a double for each row, or is NULL. */
SEXP records_distances(SEXP x, SEXP weights, SEXP means);

/* The records in their order. `fields` is a matrix with a record in each row. There may be more records than rows of
 * `x`: then its rows begin again. */
SEXP records_pack(SEXP fields, SEXP x, SEXP means, SEXP scales);

/* The columns of a matrix, in the order of their keys, which have one number or two. */
SEXP records_sort(SEXP matrix, SEXP numbers);

/* The proposals of the rank, and how many of its keys belong to each of `ranks`, by the proposals of all ranks. The keys
 * are sorted. */
SEXP records_propose(SEXP keys);
SEXP records_divide(SEXP keys, SEXP proposals, SEXP ranks);

/* The sums of the ranks beyond, by the edges of all ranks: a column each. */
SEXP records_carry(SEXP edges, SEXP rank, SEXP back);

/* The sum of the distances of times from 0; the first time of the chain of each of the sorted times; and the first time
 * of the chain of the first of them, by the edges of the ranks up to this one (numerics/cox_times.h). */
SEXP times_sum(SEXP times);
SEXP times_chains(SEXP times, SEXP mean);
SEXP times_before(SEXP edges, SEXP mean);

#endif
