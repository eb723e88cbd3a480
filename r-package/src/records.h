/* SPDX-License-Identifier: Apache-2.0
 *
 * Records of a proportional hazards model, in the order of stratum and time: see R/coxph-records.R.
 */
#ifndef SPARKRING_RECORDS_H
#define SPARKRING_RECORDS_H

#include <Rinternals.h>

/* A matrix with a record in each column: the values of the double vectors in the list `numbers`, and the row of the
 * double matrix `x` minus `centers`, divided by `scales`. Records are taken in the order of the integers `order`, from 1. There may be more
 * records than rows of `x`: then its rows begin again. */
SEXP records_pack(SEXP numbers, SEXP x, SEXP centers, SEXP scales, SEXP order);

/* The cumulative sums of the columns of the double matrix `values`, for each run of equal `strata`, a double for each
 * column. `backward`: from the last column. The first run begins with the sums `carried`. */
SEXP records_cumulate(SEXP values, SEXP strata, SEXP carried, SEXP backward);

#endif
