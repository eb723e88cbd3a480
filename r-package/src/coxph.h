/* SPDX-License-Identifier: Apache-2.0
 *
 * Passes over the records of a proportional hazards model, for R/coxph.R. `records` is the list of records_unpack():
 * `x`, a record in each column; `sign`; `event`; `first`, the first record of each group; and the numbers of the
 * groups `strata`, `deaths` and `died`. `risk` has the weighted risk of each record.
 */
#ifndef SPARKRING_COXPH_H
#define SPARKRING_COXPH_H

#include <Rinternals.h>

/* Visits the groups backward in time, with the sums of the risk, and of the risk times the covariates, over the rows
 * at risk. The sums begin with `carried`, of ranks with later times. `efron` is the treatment of equal times (Efron,
 * 1977): each of d deaths is a step, which takes a fraction of the deaths from the rows at risk. Else a group is one
 * step (Breslow, 1974). At a step, let m be the mean of the covariates over the rows at risk, h the hazard, and f the
 * fraction. A list:
 *   log       the sum of the weighted logarithms of the risk of the rows at risk,
 *   score     the sum of the weighted means,
 *   squares   the sum of the weighted products m m',
 *   hazard    for each group the sum of h, and `tied`, of f h,
 * and with `detail`, for each group:
 *   squared   the sum of h per risk,
 *   expected  the weighted sum of m, and `moved` and `shared`, the sums of h m and f h m: a column each. */
SEXP coxph_sweep(SEXP records, SEXP risk, SEXP carried, SEXP efron, SEXP detail);

/* The score residuals of the records, without weights, a column each. `sweep` has `tied`, `expected` and `shared` of
 * coxph_sweep(); `hazard` is exp() of the linear predictor of each record; `total` and `moved` are the cumulative sums
 * of `hazard` and `moved` of coxph_sweep() for each group. `died` must not be 0 where there are deaths. */
SEXP coxph_residuals(SEXP records, SEXP sweep, SEXP hazard, SEXP total, SEXP moved);

#endif
