/* SPDX-License-Identifier: Apache-2.0 */
#include "coxph.h"

#include <string.h>

#include "fields.h"
#include "numerics/cox.h"
#include "numerics/cox_clusters.h"
#include "numerics/cox_newton.h"
#include "numerics/positive.h"

enum { RECORDS_UNTIL_PAUSE = 1 << 16 };

static double *coxph_memory(size_t count) {
  return (double *)R_alloc(count + 1, sizeof(double));
}

static SEXP coxph_zeros(size_t count) {
  SEXP vector = Rf_allocVector(REALSXP, (R_xlen_t)count);
  memset(REAL(vector), 0, count * sizeof(double));
  return vector;
}

/* ---- Passes ----------------------------------------------------------------------------------------------------- */

static num_cox_pass coxph_open(SEXP list) {
  SEXP all = fields_matrix(list, "all");
  num_cox_pass pass = {.efron = Rf_asLogical(fields_get(list, "efron")) == TRUE,
                       .details = Rf_asLogical(fields_get(list, "details")) == TRUE};
  pass.records.count = (size_t)Rf_ncols(all);
  pass.records.width = (size_t)Rf_asInteger(fields_get(list, "width"));
  pass.records.all = REAL_RO(all);
  if (num_cox_size(pass.records.width) != (size_t)Rf_nrows(all))
    Rf_error("the records do not have %d covariates", (int)pass.records.width);
  return pass;
}

/* A pass with risks, and with `state`, a copy of its own. */
static num_cox_pass coxph_open_risks(SEXP list, SEXP state) {
  num_cox_pass pass = coxph_open(list);
  pass.risks = (double *)fields_doubles(list, "risks", (R_xlen_t)pass.records.count);
  pass.state = REAL(state);
  return pass;
}

/* A pass with rows, too. */
static num_cox_pass coxph_open_rows(SEXP list, SEXP state) {
  num_cox_pass pass = coxph_open_risks(list, state);
  SEXP rows = fields_matrix(list, "rows");
  pass.groups = (size_t)Rf_ncols(rows);
  pass.rows = REAL(rows);
  if ((size_t)Rf_nrows(rows) != num_cox_row(pass.records.width, pass.details))
    Rf_error("the rows of groups do not belong to the pass");
  return pass;
}

static SEXP coxph_state(SEXP list) {
  return Rf_duplicate(fields_get(list, "state"));
}

SEXP coxph_groups(SEXP list) {
  num_cox_pass pass = coxph_open(list);
  return Rf_ScalarInteger((int)num_cox_groups(&pass.records));
}

SEXP coxph_risks(SEXP list, SEXP coefficients) {
  const char *names[] = {"risks", "state", ""};
  num_cox_pass pass = coxph_open(list);
  SEXP result = PROTECT(Rf_mkNamed(VECSXP, names));
  SET_VECTOR_ELT(result, 0, Rf_allocVector(REALSXP, (R_xlen_t)pass.records.count));
  SET_VECTOR_ELT(result, 1, coxph_zeros(num_cox_state(pass.records.width)));
  pass.risks = REAL(VECTOR_ELT(result, 0));
  pass.state = REAL(VECTOR_ELT(result, 1));
  for (size_t from = 0; from < pass.records.count; from += RECORDS_UNTIL_PAUSE) {
    size_t left = pass.records.count - from;
    num_cox_risks(&pass, from, from + (left < RECORDS_UNTIL_PAUSE ? left : RECORDS_UNTIL_PAUSE),
                  REAL_RO(coefficients));
    R_CheckUserInterrupt();
  }
  UNPROTECT(1);
  return result;
}

SEXP coxph_edge(SEXP list, SEXP back) {
  SEXP state = PROTECT(coxph_state(list));
  bool is_back = Rf_asLogical(back) == TRUE;
  num_cox_pass pass = is_back ? coxph_open_risks(list, state) : coxph_open_rows(list, state);
  size_t sums = is_back || pass.details ? 1 + pass.records.width : 1;
  SEXP result = PROTECT(coxph_zeros(2 + sums));
  if (is_back)
    num_cox_edge_back(&pass, REAL(result));
  else
    num_cox_edge_forward(&pass, REAL(result));
  UNPROTECT(2);
  return result;
}

SEXP coxph_back(SEXP list, SEXP groups, SEXP carried) {
  const char *names[] = {"rows", "state", ""};
  SEXP result = PROTECT(Rf_mkNamed(VECSXP, names));
  SET_VECTOR_ELT(result, 1, coxph_state(list));
  num_cox_pass pass = coxph_open_risks(list, VECTOR_ELT(result, 1));
  pass.groups = (size_t)Rf_asInteger(groups);
  size_t size = num_cox_row(pass.records.width, pass.details);
  SET_VECTOR_ELT(result, 0, Rf_allocMatrix(REALSXP, (int)size, (int)pass.groups));
  pass.rows = REAL(VECTOR_ELT(result, 0));
  for (size_t until = pass.records.count, from; until > 0; until = from) {
    from = until < RECORDS_UNTIL_PAUSE ? 0 : until - RECORDS_UNTIL_PAUSE;
    num_cox_back(&pass, from, until, REAL_RO(carried));
    R_CheckUserInterrupt();
  }
  UNPROTECT(1);
  return result;
}

SEXP coxph_forward(SEXP list, SEXP carried) {
  SEXP state = PROTECT(coxph_state(list));
  num_cox_pass pass = coxph_open_rows(list, state);
  for (size_t from = 0; from < pass.records.count; from += RECORDS_UNTIL_PAUSE) {
    size_t left = pass.records.count - from;
    num_cox_forward(&pass, from, from + (left < RECORDS_UNTIL_PAUSE ? left : RECORDS_UNTIL_PAUSE),
                    REAL_RO(carried));
    R_CheckUserInterrupt();
  }
  SEXP result = PROTECT(coxph_zeros(num_cox_sums(pass.records.width)));
  num_cox_end(&pass, REAL(result));
  UNPROTECT(2);
  return result;
}

/* ---- Residuals -------------------------------------------------------------------------------------------------- */

SEXP coxph_residuals(SEXP list, SEXP carried) {
  SEXP state = PROTECT(coxph_state(list)), sums = PROTECT(Rf_duplicate(carried));
  num_cox_pass pass = coxph_open_rows(list, state);
  if (!pass.details) Rf_error("the pass has no details");
  SEXP result =
      PROTECT(Rf_allocMatrix(REALSXP, (int)pass.records.width + 1, (int)pass.records.count));
  num_cox_residuals(&pass, REAL(sums), REAL(result));
  UNPROTECT(3);
  return result;
}

SEXP coxph_clusters(SEXP rows) {
  size_t size = (size_t)Rf_nrows(rows), count = (size_t)Rf_ncols(rows);
  double *clusters = coxph_memory(size * count);
  size_t found = num_cox_clusters(REAL_RO(rows), count, size - 1, clusters);
  SEXP result = PROTECT(Rf_allocMatrix(REALSXP, (int)size, (int)found));
  memcpy(REAL(result), clusters, size * found * sizeof *clusters);
  UNPROTECT(1);
  return result;
}

SEXP coxph_influence(SEXP clusters, SEXP matrix) {
  size_t width = (size_t)Rf_nrows(clusters) - 1;
  SEXP result = PROTECT(coxph_zeros(width + width * width));
  num_cox_influence(REAL_RO(clusters), (size_t)Rf_ncols(clusters), width,
                    Rf_isNull(matrix) ? NULL : REAL_RO(matrix), REAL(result),
                    coxph_memory(num_cox_influence_scratch(width)));
  UNPROTECT(1);
  return result;
}

/* ---- Newton's iterations ---------------------------------------------------------------------------------------- */

SEXP coxph_step(SEXP sums, SEXP first, SEXP tolerance, SEXP kept) {
  const char *names[] = {"test", "step", "variance", "kept", ""};
  int width = (int)Rf_xlength(kept);
  if (num_cox_sums((size_t)width) != (size_t)Rf_xlength(sums))
    Rf_error("the sums are not those of %d columns", width);
  SEXP result = PROTECT(Rf_mkNamed(VECSXP, names));
  SET_VECTOR_ELT(result, 1, Rf_allocVector(REALSXP, width));
  SET_VECTOR_ELT(result, 2, Rf_allocMatrix(REALSXP, width, width));
  SET_VECTOR_ELT(result, 3, Rf_duplicate(kept));
  double test =
      num_cox_step(REAL_RO(sums), (size_t)width, Rf_asLogical(first) == TRUE, Rf_asReal(tolerance),
                   LOGICAL(VECTOR_ELT(result, 3)), REAL(VECTOR_ELT(result, 1)),
                   REAL(VECTOR_ELT(result, 2)), coxph_memory(num_positive_scratch((size_t)width)));
  SET_VECTOR_ELT(result, 0, Rf_ScalarReal(test));
  UNPROTECT(1);
  return result;
}

SEXP coxph_change(SEXP before, SEXP now) {
  return Rf_ScalarReal(num_cox_change(Rf_asReal(before), Rf_asReal(now)));
}

SEXP coxph_wald(SEXP covariance, SEXP values, SEXP tolerance) {
  size_t width = (size_t)Rf_xlength(values);
  int32_t *kept = (int32_t *)R_alloc(width + 1, sizeof *kept);
  return Rf_ScalarReal(num_positive_wald(REAL_RO(covariance), width, REAL_RO(values),
                                         Rf_asReal(tolerance), kept,
                                         coxph_memory(num_positive_scratch(width))));
}
