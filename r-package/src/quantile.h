/* SPDX-License-Identifier: Apache-2.0
 *
 * Quantiles between order statistics, for R/quantile.R: numerics/quantile.h.
 */
#ifndef SPARKRING_QUANTILE_H
#define SPARKRING_QUANTILE_H

#include <Rinternals.h>

/* The places of quantiles of `count` numbers: a matrix with the rows below, above and share. */
SEXP quantile_places(SEXP count, SEXP probs, SEXP type);

/* The quantiles, from the order statistics and the shares of their places, which are doubles. */
SEXP quantile_between(SEXP below, SEXP above, SEXP share);

#endif
