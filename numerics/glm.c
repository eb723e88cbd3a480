/* SPDX-License-Identifier: Apache-2.0 */
#include "glm.h"

#include <float.h>
#include <math.h>

#include "exact.h"

enum { GLM_TILE = 64 /* rows */ };

static const double glm_logit_most = 30;
static const double glm_probit_most = 8.125890664701906; /* whose mean is 1 - DBL_EPSILON */

/* Calls `body` for each i, in a loop of its own for each kind. */
#define GLM_EACH(body)                                                                             \
  for (size_t i = 0; i < count; i++) {                                                             \
    body;                                                                                          \
  }                                                                                                \
  break

/* NaN stays NaN. */
static double glm_within(double x, double least, double most) {
  return x < least ? least : x > most ? most : x;
}

static double glm_positive(double x) {
  return x < DBL_EPSILON ? DBL_EPSILON : x;
}

static double glm_normal_mean(double eta) {
  return erfc(-eta / 1.4142135623730951) / 2;
}

static double glm_normal_density(double eta) {
  return exp(-(eta * eta) / 2) / 2.5066282746310002;
}

/* The quantile of a normal distribution, by Halley's method from the tail's first term. */
static double glm_normal_eta(double mu) {
  if (!(mu > 0 && mu < 1)) return mu == 0 ? -INFINITY : mu == 1 ? INFINITY : NAN;
  double tail = mu < 0.5 ? mu : 1 - mu;
  double eta = tail < 0.1 ? -sqrt(-2 * log(tail)) : (tail - 0.5) * 2.5066282746310002;
  for (int i = 0; i < 12; i++) {
    double step = (glm_normal_mean(eta) - tail) / glm_normal_density(eta);
    eta -= step / (1 + eta * step / 2);
  }
  return mu < 0.5 ? eta : -eta;
}

static double glm_odds(double eta) {
  return eta < -glm_logit_most ? DBL_EPSILON : eta > glm_logit_most ? 1 / DBL_EPSILON : exp(eta);
}

static double glm_logit_slope(double eta) {
  if (fabs(eta) > glm_logit_most) return DBL_EPSILON;
  double odds = exp(-fabs(eta));
  return odds / ((1 + odds) * (1 + odds));
}

static double glm_cloglog_slope(double eta) {
  double rate = exp(eta > 700 ? 700 : eta);
  return glm_positive(rate * exp(-rate));
}

void num_link_eta(num_link link, size_t count, const double *mu, double *eta) {
  switch (link) {
  case NUM_LINK_LOG:
    GLM_EACH(eta[i] = log(mu[i]));
  case NUM_LINK_LOGIT:
    GLM_EACH(eta[i] = log(mu[i] / (1 - mu[i])));
  case NUM_LINK_PROBIT:
    GLM_EACH(eta[i] = glm_normal_eta(mu[i]));
  case NUM_LINK_CLOGLOG:
    GLM_EACH(eta[i] = log(-log1p(-mu[i])));
  case NUM_LINK_INVERSE:
    GLM_EACH(eta[i] = 1 / mu[i]);
  case NUM_LINK_SQRT:
    GLM_EACH(eta[i] = sqrt(mu[i]));
  case NUM_LINK_INVERSE_SQUARED:
    GLM_EACH(eta[i] = 1 / (mu[i] * mu[i]));
  default:
    GLM_EACH(eta[i] = mu[i]);
  }
}

void num_link_mean(num_link link, size_t count, const double *eta, double *mu) {
  switch (link) {
  case NUM_LINK_LOG:
    GLM_EACH(mu[i] = glm_positive(exp(eta[i])));
  case NUM_LINK_LOGIT:
    GLM_EACH(mu[i] = glm_odds(eta[i]); mu[i] /= 1 + mu[i]);
  case NUM_LINK_PROBIT:
    GLM_EACH(mu[i] = glm_normal_mean(glm_within(eta[i], -glm_probit_most, glm_probit_most)));
  case NUM_LINK_CLOGLOG:
    GLM_EACH(mu[i] = glm_within(-expm1(-exp(eta[i])), DBL_EPSILON, 1 - DBL_EPSILON));
  case NUM_LINK_INVERSE:
    GLM_EACH(mu[i] = 1 / eta[i]);
  case NUM_LINK_SQRT:
    GLM_EACH(mu[i] = eta[i] * eta[i]);
  case NUM_LINK_INVERSE_SQUARED:
    GLM_EACH(mu[i] = 1 / sqrt(eta[i]));
  default:
    GLM_EACH(mu[i] = eta[i]);
  }
}

void num_link_slope(num_link link, size_t count, const double *eta, double *slope) {
  switch (link) {
  case NUM_LINK_LOG:
    GLM_EACH(slope[i] = glm_positive(exp(eta[i])));
  case NUM_LINK_LOGIT:
    GLM_EACH(slope[i] = glm_logit_slope(eta[i]));
  case NUM_LINK_PROBIT:
    GLM_EACH(slope[i] = glm_positive(glm_normal_density(eta[i])));
  case NUM_LINK_CLOGLOG:
    GLM_EACH(slope[i] = glm_cloglog_slope(eta[i]));
  case NUM_LINK_INVERSE:
    GLM_EACH(slope[i] = -1 / (eta[i] * eta[i]));
  case NUM_LINK_SQRT:
    GLM_EACH(slope[i] = 2 * eta[i]);
  case NUM_LINK_INVERSE_SQUARED:
    GLM_EACH(slope[i] = -1 / (2 * eta[i] * sqrt(eta[i])));
  default:
    GLM_EACH(slope[i] = 1);
  }
}

void num_family_variance(num_family family, size_t count, const double *mu, double *variance) {
  switch (family) {
  case NUM_FAMILY_BINOMIAL:
    GLM_EACH(variance[i] = mu[i] * (1 - mu[i]));
  case NUM_FAMILY_POISSON:
    GLM_EACH(variance[i] = mu[i]);
  case NUM_FAMILY_GAMMA:
    GLM_EACH(variance[i] = mu[i] * mu[i]);
  case NUM_FAMILY_INVERSE_GAUSSIAN:
    GLM_EACH(variance[i] = mu[i] * mu[i] * mu[i]);
  default:
    GLM_EACH(variance[i] = 1);
  }
}

/* y log(y / mu), which is 0 for a y of 0. */
static double glm_information(double y, double mu) {
  return y == 0 ? 0 : y * log(y / mu);
}

static double glm_square(double y, double mu) {
  return (y - mu) * (y - mu);
}

void num_family_deviance(num_family family, size_t count, const double *y, const double *mu,
                         const double *weights, double *deviance) {
  const double *w = weights;
  switch (family) {
  case NUM_FAMILY_BINOMIAL:
    GLM_EACH(deviance[i] =
                 2 * w[i] * (glm_information(y[i], mu[i]) + glm_information(1 - y[i], 1 - mu[i])));
  case NUM_FAMILY_POISSON:
    GLM_EACH(deviance[i] = 2 * w[i] * (glm_information(y[i], mu[i]) - (y[i] - mu[i])));
  case NUM_FAMILY_GAMMA:
    GLM_EACH(deviance[i] =
                 -2 * w[i] * (log(y[i] == 0 ? 1 : y[i] / mu[i]) - (y[i] - mu[i]) / mu[i]));
  case NUM_FAMILY_INVERSE_GAUSSIAN:
    GLM_EACH(deviance[i] = w[i] * glm_square(y[i], mu[i]) / (y[i] * (mu[i] * mu[i])));
  default:
    GLM_EACH(deviance[i] = w[i] * glm_square(y[i], mu[i]));
  }
}

void num_glm_predict(size_t count, size_t columns, const double *x, size_t row_step,
                     size_t column_step, double intercept, const double *coefficients,
                     const double *offset, double *eta) {
  double sums[GLM_TILE];
  for (size_t from = 0; from < count; from += GLM_TILE) {
    size_t left = count - from, rows = left < GLM_TILE ? left : GLM_TILE;
    for (size_t i = 0; i < rows; i++) sums[i] = intercept;
    for (size_t k = 0; k < columns; k++) {
      const double *column = x + from * row_step + k * column_step;
      for (size_t i = 0; i < rows; i++) sums[i] += coefficients[k] * column[i * row_step];
    }
    for (size_t i = 0; i < rows; i++) eta[from + i] = sums[i] + (offset ? offset[from + i] : 0);
  }
}

void num_glm_add(double *state, size_t count, const double *x) {
  double sum = state[0], rest = state[1], added, turn;
  for (size_t i = 0; i < count; i++) EXACT_ADD(sum, rest, x[i]);
  state[0] = sum, state[1] = rest;
}

double num_glm_total(const double *state) {
  return isfinite(state[1]) ? state[0] + state[1] : state[0];
}
