/* SPDX-License-Identifier: Apache-2.0
 *
 * A pass over the rows of a penalised regression, for R/glmnet.R. Columns are centered and scaled tile by tile in the
 * cache, so no copy of the rows is made.
 */
#ifndef SPARKRING_ELASTIC_NET_H
#define SPARKRING_ELASTIC_NET_H

#include <Rinternals.h>

/* `rows` is a list: `family`, a string as for ring_glmnet(); the double matrices `x`, and `y` with a column for each
 * class; `weights` and `offset` of the rows; `center` and `scale` of the columns; and `intercept`, a logical.
 * Coefficients are counted from 1, class by class: the intercept, if any, then the columns. All but the `active` ones,
 * increasing integers, are 0; `b` are their values.
 *
 * Returns doubles: the deviance of these rows, up to a term of `y` alone; its negative half gradient, for all
 * coefficients if `whole`, else for the active ones; and its half curvature, a square matrix for the active ones. */
SEXP elastic_net_pass(SEXP rows, SEXP b, SEXP active, SEXP whole);

#endif
