/* SPDX-License-Identifier: Apache-2.0
 *
 * Links and families of generalized linear models (P. McCullagh and J. Nelder, 1989, Generalized Linear Models), with
 * the limits of R's glm(): means and slopes stay a rounding error away from what is impossible. Functions compute
 * `count` numbers, and write to memory of the caller.
 */
#ifndef SPARKRING_NUMERICS_GLM_H
#define SPARKRING_NUMERICS_GLM_H

#include <stdbool.h>
#include <stddef.h>

typedef enum {
  NUM_LINK_IDENTITY,
  NUM_LINK_LOG,
  NUM_LINK_LOGIT,
  NUM_LINK_PROBIT,
  NUM_LINK_CLOGLOG,
  NUM_LINK_INVERSE,
  NUM_LINK_SQRT,
  NUM_LINK_INVERSE_SQUARED,
  NUM_LINKS
} num_link;

typedef enum {
  NUM_FAMILY_GAUSSIAN,
  NUM_FAMILY_BINOMIAL,
  NUM_FAMILY_POISSON,
  NUM_FAMILY_GAMMA,
  NUM_FAMILY_INVERSE_GAUSSIAN,
  NUM_FAMILIES
} num_family;

/* The linear predictors of means, the means of linear predictors, and the slopes of these means. */
void num_link_eta(num_link link, size_t count, const double *mu, double *eta);
void num_link_mean(num_link link, size_t count, const double *eta, double *mu);
void num_link_slope(num_link link, size_t count, const double *eta, double *slope);

/* The variances of means, for a dispersion of 1. */
void num_family_variance(num_family family, size_t count, const double *mu, double *variance);

/* The deviance of each response from its mean, times its weight. */
void num_family_deviance(num_family family, size_t count, const double *y, const double *mu,
                         const double *weights, double *deviance);

/* The linear predictors of rows: `intercept`, and for each of `columns` columns its coefficient times number k of row i,
 * which is x[i * row_step + k * column_step], added up from the first column on, and the offset, unless that is NULL. */
void num_glm_predict(size_t count, size_t columns, const double *x, size_t row_step,
                     size_t column_step, double intercept, const double *coefficients,
                     const double *offset, double *eta);

/* Adds numbers to a sum, which is as exact as one in twice the precision (exact.h), and so does not depend on how the
 * numbers are cut into parts. `state` begins as two zeros. */
void num_glm_add(double *state, size_t count, const double *x);
double num_glm_total(const double *state);

#endif
