/* SPDX-License-Identifier: Apache-2.0
 *
 * Links and families, for R/glm-native.R: numerics/glm.h. A link or a family is its number there.
 */
#ifndef SPARKRING_GLM_H
#define SPARKRING_GLM_H

#include <Rinternals.h>

SEXP glm_eta(SEXP link, SEXP mu);
SEXP glm_mean(SEXP link, SEXP eta);
SEXP glm_slope(SEXP link, SEXP eta);
SEXP glm_variance(SEXP family, SEXP mu);
SEXP glm_deviance(SEXP family, SEXP y, SEXP mu, SEXP weights);

/* The linear predictors of the rows of a matrix of doubles. */
SEXP glm_predict(SEXP x, SEXP coefficients, SEXP offset);

/* The state of a sum with further numbers, and its value. */
SEXP glm_add(SEXP state, SEXP x);
SEXP glm_total(SEXP state);

#endif
