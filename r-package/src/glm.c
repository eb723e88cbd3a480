/* SPDX-License-Identifier: Apache-2.0 */
#include "glm.h"

#include "numerics/glm.h"

static size_t glm_count(SEXP numbers, R_xlen_t length, const char *name) {
  if (!Rf_isReal(numbers) || (length >= 0 && Rf_xlength(numbers) != length))
    Rf_error("%s must be doubles, one for each row", name);
  return (size_t)Rf_xlength(numbers);
}

typedef void glm_of_link(num_link link, size_t count, const double *x, double *result);

static SEXP glm_apply(glm_of_link *apply, SEXP link, SEXP x, const char *name) {
  size_t count = glm_count(x, -1, name);
  SEXP result = PROTECT(Rf_allocVector(REALSXP, (R_xlen_t)count));
  apply((num_link)Rf_asInteger(link), count, REAL_RO(x), REAL(result));
  UNPROTECT(1);
  return result;
}

SEXP glm_eta(SEXP link, SEXP mu) {
  return glm_apply(num_link_eta, link, mu, "mu");
}

SEXP glm_mean(SEXP link, SEXP eta) {
  return glm_apply(num_link_mean, link, eta, "eta");
}

SEXP glm_slope(SEXP link, SEXP eta) {
  return glm_apply(num_link_slope, link, eta, "eta");
}

SEXP glm_variance(SEXP family, SEXP mu) {
  size_t count = glm_count(mu, -1, "mu");
  SEXP result = PROTECT(Rf_allocVector(REALSXP, (R_xlen_t)count));
  num_family_variance((num_family)Rf_asInteger(family), count, REAL_RO(mu), REAL(result));
  UNPROTECT(1);
  return result;
}

SEXP glm_deviance(SEXP family, SEXP y, SEXP mu, SEXP weights) {
  size_t count = glm_count(y, -1, "y");
  glm_count(mu, (R_xlen_t)count, "mu");
  glm_count(weights, (R_xlen_t)count, "weights");
  SEXP result = PROTECT(Rf_allocVector(REALSXP, (R_xlen_t)count));
  num_family_deviance((num_family)Rf_asInteger(family), count, REAL_RO(y), REAL_RO(mu),
                      REAL_RO(weights), REAL(result));
  UNPROTECT(1);
  return result;
}

SEXP glm_predict(SEXP x, SEXP coefficients, SEXP offset) {
  if (!Rf_isReal(x) || !Rf_isMatrix(x)) Rf_error("the rows are not a matrix of doubles");
  size_t count = (size_t)Rf_nrows(x), columns = (size_t)Rf_ncols(x);
  glm_count(coefficients, (R_xlen_t)columns, "coefficients");
  glm_count(offset, (R_xlen_t)count, "offset");
  SEXP result = PROTECT(Rf_allocVector(REALSXP, (R_xlen_t)count));
  num_glm_predict(count, columns, REAL_RO(x), 1, count, 0, REAL_RO(coefficients), REAL_RO(offset),
                  REAL(result));
  UNPROTECT(1);
  return result;
}

SEXP glm_add(SEXP state, SEXP x) {
  size_t count = glm_count(x, -1, "x");
  glm_count(state, 2, "the state");
  SEXP result = PROTECT(Rf_duplicate(state));
  num_glm_add(REAL(result), count, REAL_RO(x));
  UNPROTECT(1);
  return result;
}

SEXP glm_total(SEXP state) {
  glm_count(state, 2, "the state");
  return Rf_ScalarReal(num_glm_total(REAL_RO(state)));
}
