/* SPDX-License-Identifier: Apache-2.0 */
#include "records.h"

#include <stdbool.h>

enum { RECORDS_UNTIL_PAUSE = 1 << 16 };

static void records_check(SEXP numbers, SEXP x, SEXP centers, SEXP scales, SEXP order) {
  if (!Rf_isReal(x) || !Rf_isMatrix(x)) Rf_error("the rows are not a matrix of doubles");
  if (!Rf_isReal(centers) || Rf_xlength(centers) != Rf_ncols(x))
    Rf_error("the centers are not %d doubles", Rf_ncols(x));
  if (!Rf_isReal(scales) || Rf_xlength(scales) != Rf_ncols(x))
    Rf_error("the scales are not %d doubles", Rf_ncols(x));
  if (!Rf_isNewList(numbers) || !Rf_isInteger(order))
    Rf_error("the records have no numbers or order");
  R_xlen_t count = Rf_xlength(order);
  for (R_xlen_t k = 0; k < Rf_xlength(numbers); k++) {
    SEXP column = VECTOR_ELT(numbers, k);
    if (!Rf_isReal(column) || Rf_xlength(column) != count)
      Rf_error("the records do not have %.0f doubles each", (double)count);
  }
  for (R_xlen_t i = 0; i < count; i++) {
    int record = INTEGER_RO(order)[i];
    if (record < 1 || record > count || Rf_nrows(x) == 0) Rf_error("there is no record %d", record);
  }
}

SEXP records_pack(SEXP numbers, SEXP x, SEXP centers, SEXP scales, SEXP order) {
  records_check(numbers, x, centers, scales, order);
  R_xlen_t rows = Rf_nrows(x), width = Rf_ncols(x), count = Rf_xlength(order),
           more = Rf_xlength(numbers);
  SEXP result = PROTECT(Rf_allocMatrix(REALSXP, (int)(more + width), (int)count));
  for (R_xlen_t i = 0; i < count; i++) {
    if (i % RECORDS_UNTIL_PAUSE == 0) R_CheckUserInterrupt();
    R_xlen_t record = INTEGER_RO(order)[i] - 1;
    double *to = REAL(result) + i * (more + width);
    for (R_xlen_t k = 0; k < more; k++) to[k] = REAL_RO(VECTOR_ELT(numbers, k))[record];
    const double *row = REAL_RO(x) + record % rows;
    for (R_xlen_t k = 0; k < width; k++)
      to[more + k] = (row[k * rows] - REAL_RO(centers)[k]) / REAL_RO(scales)[k];
  }
  UNPROTECT(1);
  return result;
}

SEXP records_cumulate(SEXP values, SEXP strata, SEXP carried, SEXP backward) {
  if (!Rf_isReal(values) || !Rf_isMatrix(values))
    Rf_error("the values are not a matrix of doubles");
  R_xlen_t width = Rf_nrows(values), count = Rf_ncols(values);
  if (!Rf_isReal(strata) || Rf_xlength(strata) != count || !Rf_isReal(carried) ||
      Rf_xlength(carried) != width)
    Rf_error("the strata and the carried sums do not belong to the values");
  bool back = Rf_asLogical(backward) == TRUE;
  SEXP result = PROTECT(Rf_allocMatrix(REALSXP, (int)width, (int)count));
  const double *before = REAL_RO(carried), *stratum = REAL_RO(strata);
  for (R_xlen_t step = 0; step < count; step++) {
    if (step % RECORDS_UNTIL_PAUSE == 0) R_CheckUserInterrupt();
    R_xlen_t i = back ? count - 1 - step : step, last = back ? i + 1 : i - 1;
    bool begins = step > 0 && stratum[i] != stratum[last];
    double *to = REAL(result) + i * width;
    for (R_xlen_t k = 0; k < width; k++)
      to[k] = (begins ? 0 : before[k]) + REAL_RO(values)[i * width + k];
    before = to;
  }
  UNPROTECT(1);
  return result;
}
