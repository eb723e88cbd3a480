/* SPDX-License-Identifier: Apache-2.0
 *
 * The arguments of numerics/net_pass.h and numerics/net_path.h, for R/glmnet.R.
 *
 * `rows` is a list: `family`, a string as for ring_glmnet(); `intercept`, a logical; the double matrices `x`, and `y`
 * with a column for each class; `weights` and `offset` of the rows; and `center` and `scale` of the columns.
 * Coefficients are counted from 1, class by class: the intercept, if any, then the columns.
 */
#ifndef SPARKRING_ELASTIC_NET_H
#define SPARKRING_ELASTIC_NET_H

#include <Rinternals.h>

/* The sums of a pass over these rows. All coefficients but the `active` ones, increasing integers, are 0; `b` are their
 * values. */
SEXP elastic_net_pass(SEXP rows, SEXP b, SEXP active, SEXP whole);

/* The term of the deviance of these rows that depends on `y` alone. */
SEXP elastic_net_least(SEXP rows);

/* The pass for the squared loss, from the sums of all coefficients at 0. */
SEXP elastic_net_squares(SEXP rows, SEXP sums, SEXP b, SEXP active, SEXP whole);

/* The path of the list `problem`, whose numbers are those of num_net_problem. `look` is a function of `b`, `active` and
 * `whole` that returns the sums of all ranks, and `share` a function that returns the numbers of rank 0. Returns a list
 * as num_net_path, with `slopes` and `levels` for the coefficients. */
SEXP elastic_net_path(SEXP rows, SEXP problem, SEXP look, SEXP share);

#endif
