/* SPDX-License-Identifier: Apache-2.0 */
#include "records.h"

#include <string.h>

#include "numerics/cox_times.h"

static num_cox_columns records_columns(SEXP x) {
  return (num_cox_columns){.count = (size_t)Rf_nrows(x),
                           .width = (size_t)Rf_ncols(x),
                           .row_step = 1,
                           .column_step = (size_t)Rf_nrows(x),
                           .x = REAL_RO(x)};
}

static num_cox_keys records_keys(SEXP keys) {
  if (!Rf_isMatrix(keys))
    return (num_cox_keys){.count = (size_t)Rf_xlength(keys), .step = 1, .all = REAL_RO(keys)};
  return (num_cox_keys){.count = (size_t)Rf_ncols(keys),
                        .step = (size_t)Rf_nrows(keys),
                        .gap = 1,
                        .all = REAL_RO(keys)};
}

/* The order of the keys, in memory that R frees. */
static const int32_t *records_order(const num_cox_keys *keys) {
  int32_t *order = (int32_t *)R_alloc(2 * keys->count + 1, sizeof *order);
  num_cox_order(keys, order, order + keys->count);
  return order;
}

/* ---- Making records --------------------------------------------------------------------------------------------- */

SEXP records_distances(SEXP x, SEXP weights, SEXP means) {
  num_cox_columns columns = records_columns(x);
  SEXP result = PROTECT(Rf_allocVector(REALSXP, Rf_ncols(x)));
  num_cox_distances(&columns, Rf_isNull(weights) ? NULL : REAL_RO(weights), REAL_RO(means),
                    REAL(result));
  UNPROTECT(1);
  return result;
}

SEXP records_pack(SEXP fields, SEXP x, SEXP means, SEXP scales) {
  num_cox_columns columns = records_columns(x);
  size_t count = (size_t)Rf_nrows(fields);
  num_cox_keys keys = {.count = count, .step = 1, .gap = count, .all = REAL_RO(fields)};
  const int32_t *order = records_order(&keys);
  R_CheckUserInterrupt();
  SEXP result =
      PROTECT(Rf_allocMatrix(REALSXP, (int)num_cox_size(columns.width), Rf_nrows(fields)));
  num_cox_pack(REAL(result), count, REAL_RO(fields), &columns, REAL_RO(means), REAL_RO(scales),
               order);
  UNPROTECT(1);
  return result;
}

SEXP records_sort(SEXP matrix, SEXP numbers) {
  num_cox_keys keys = records_keys(matrix);
  keys.gap = Rf_asInteger(numbers) == 2;
  const int32_t *order = records_order(&keys);
  R_CheckUserInterrupt();
  SEXP result = PROTECT(Rf_allocMatrix(REALSXP, Rf_nrows(matrix), Rf_ncols(matrix)));
  num_cox_sort(REAL_RO(matrix), keys.step, keys.count, order, REAL(result));
  UNPROTECT(1);
  return result;
}

/* ---- Ranks ------------------------------------------------------------------------------------------------------ */

SEXP records_propose(SEXP keys) {
  num_cox_keys of = records_keys(keys);
  double proposals[NUM_COX_PROPOSALS * NUM_COX_PROPOSAL];
  size_t count = num_cox_propose(&of, proposals);
  SEXP result = PROTECT(Rf_allocMatrix(REALSXP, NUM_COX_PROPOSAL, (int)count));
  memcpy(REAL(result), proposals, count * NUM_COX_PROPOSAL * sizeof *proposals);
  UNPROTECT(1);
  return result;
}

SEXP records_divide(SEXP keys, SEXP proposals, SEXP ranks) {
  num_cox_keys of = records_keys(keys);
  SEXP sorted = PROTECT(records_sort(proposals, Rf_ScalarInteger(2)));
  SEXP result = PROTECT(Rf_allocVector(REALSXP, Rf_asInteger(ranks)));
  num_cox_divide(&of, REAL_RO(sorted), (size_t)Rf_ncols(sorted), (size_t)Rf_xlength(result),
                 REAL(result));
  UNPROTECT(2);
  return result;
}

SEXP records_carry(SEXP edges, SEXP rank, SEXP back) {
  R_xlen_t sums = Rf_nrows(edges) - 2;
  SEXP result = PROTECT(Rf_allocVector(REALSXP, sums));
  num_cox_carry(REAL_RO(edges), (size_t)Rf_ncols(edges), (size_t)Rf_asInteger(rank), (size_t)sums,
                Rf_asLogical(back) == TRUE, REAL(result));
  UNPROTECT(1);
  return result;
}

/* ---- Times ------------------------------------------------------------------------------------------------------ */

SEXP times_sum(SEXP times) {
  return Rf_ScalarReal(num_cox_times_sum(REAL_RO(times), (size_t)Rf_xlength(times)));
}

SEXP times_chains(SEXP times, SEXP mean) {
  SEXP result = PROTECT(Rf_allocVector(REALSXP, Rf_xlength(times)));
  num_cox_chains(REAL_RO(times), (size_t)Rf_xlength(times), Rf_asReal(mean), REAL(result));
  UNPROTECT(1);
  return result;
}

SEXP times_before(SEXP edges, SEXP mean) {
  return Rf_ScalarReal(
      num_cox_chain_before(REAL_RO(edges), (size_t)Rf_ncols(edges), Rf_asReal(mean)));
}
