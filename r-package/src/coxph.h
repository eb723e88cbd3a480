/* SPDX-License-Identifier: Apache-2.0
 *
 * Passes over the records of a proportional hazards model, by numerics/cox.h: see R/coxph-pass.R. `pass` is a list:
 * `all`, the records, a column each; `width`, the number of covariates; the flags `efron` and `details`; and what the
 * visits before have returned, `risks`, `state` and `rows`.
 */
#ifndef SPARKRING_COXPH_H
#define SPARKRING_COXPH_H

#include <Rinternals.h>

/* The number of groups with events. */
SEXP coxph_groups(SEXP pass);

/* The risks of the records: a list of `risks` and `state`. */
SEXP coxph_risks(SEXP pass, SEXP coefficients);

/* The edge of this rank for records_carry(), for a visit back or forward in time. */
SEXP coxph_edge(SEXP pass, SEXP back);

/* The visit back in time: a list of `rows`, a column for each of `groups` groups with events, and `state`. */
SEXP coxph_back(SEXP pass, SEXP groups, SEXP carried);

/* The visit forward, and the sums of this rank. */
SEXP coxph_forward(SEXP pass, SEXP carried);

/* The weighted score residuals of the records, below the clusters: a column each. The pass has details. */
SEXP coxph_residuals(SEXP pass, SEXP carried);

/* The sums of clusters, which are sorted: a column each. */
SEXP coxph_clusters(SEXP rows);

/* The sums of clusters and of their products, times `matrix`, if that is not NULL. */
SEXP coxph_influence(SEXP clusters, SEXP matrix);

/* ---- Newton's iterations (numerics/cox_newton.h) ----------------------------------------------------------------- */

/* A list of `test`, the score statistic; `step`; `variance`; and `kept`, logicals for the columns. */
SEXP coxph_step(SEXP sums, SEXP first, SEXP tolerance, SEXP kept);

SEXP coxph_change(SEXP before, SEXP now);

/* Wald's statistic of values with this covariance (numerics/positive.h). */
SEXP coxph_wald(SEXP covariance, SEXP values, SEXP tolerance);

#endif
