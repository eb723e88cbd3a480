/* SPDX-License-Identifier: Apache-2.0
 *
 * The columns of a double matrix, without the copies that R's unlist() and sweep() make.
 */
#ifndef SPARKRING_COLUMNS_H
#define SPARKRING_COLUMNS_H

#include <Rinternals.h>

/* The matrix whose rows are those of all `parts`: lists of columns, numbers or logicals, `width` in each. */
SEXP columns_join(SEXP parts, SEXP width);

/* The moments of the rows, as numbers that ranks send each other (numerics/moments.h). `weights`: NULL, or a double for each row. */
SEXP columns_moments(SEXP x, SEXP weights);

/* The results of each of `width` columns, from the moments of all ranks, one after another: a list of the number of values that
 * are not missing, `counts`; the sum of their weights, `weights`; `means`; and the sum of squares around them, `squares`. */
SEXP columns_known(SEXP moments, SEXP width);

/* For each column whether all its values are -1, 0 or 1: logicals. */
SEXP columns_codes(SEXP x);

/* The doubles of integer64, which stores its bits in doubles: NA for its NA. If a double does not hold a value exactly,
 * the result has the attribute "inexact": the number of the first such value. */
SEXP columns_integer64(SEXP x);

/* (x - c) / s with the attributes of `x`. `centers` and `scales` have a double for each column, or are NULL. */
SEXP columns_scaled(SEXP x, SEXP centers, SEXP scales);

#endif
