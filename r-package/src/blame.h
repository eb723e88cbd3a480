/* SPDX-License-Identifier: Apache-2.0
 *
 * The rank at fault (R/spark-rank-result.R).
 */
#ifndef SPARKRING_BLAME_H
#define SPARKRING_BLAME_H

#include <Rinternals.h>

/* The weight of an error whose chain of causes has these statuses. */
SEXP blame_weight(SEXP statuses);

/* Which failure is at fault, counted from 1: vectors of weights, times and ranks. */
SEXP blame_first(SEXP weights, SEXP whens, SEXP ranks);

#endif
