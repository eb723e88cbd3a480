/* SPDX-License-Identifier: Apache-2.0 */
#include "columns.h"

#include <math.h>

/* `numbers` are NULL or a double for each column of `x`. */
static void columns_check(SEXP x, SEXP numbers) {
  if (!Rf_isReal(x) || !Rf_isMatrix(x)) Rf_error("the columns are not a matrix of doubles");
  if (Rf_isNull(numbers) || (Rf_isReal(numbers) && Rf_xlength(numbers) == Rf_ncols(x))) return;
  Rf_error("there are %d columns, and not a double for each", Rf_ncols(x));
}

static double columns_number(SEXP numbers, R_xlen_t column, double absent) {
  return Rf_isNull(numbers) ? absent : REAL_RO(numbers)[column];
}

SEXP columns_sums(SEXP x, SEXP centers) {
  columns_check(x, centers);
  R_xlen_t rows = Rf_nrows(x), width = Rf_ncols(x);
  SEXP result = PROTECT(Rf_allocMatrix(REALSXP, 3, (int)width));
  for (R_xlen_t k = 0; k < width; k++) {
    const double *column = REAL_RO(x) + k * rows, center = columns_number(centers, k, 0);
    long double sum = 0, squares = 0;
    R_xlen_t known = 0;
    for (R_xlen_t i = 0; i < rows; i++) {
      double gap = column[i] - center;
      if (isnan(column[i])) continue;
      known++;
      sum += gap;
      squares += gap * gap;
    }
    double *found = REAL(result) + 3 * k;
    found[0] = (double)known, found[1] = (double)sum, found[2] = (double)squares;
    R_CheckUserInterrupt();
  }
  UNPROTECT(1);
  return result;
}

SEXP columns_scaled(SEXP x, SEXP centers, SEXP scales) {
  columns_check(x, centers);
  columns_check(x, scales);
  R_xlen_t rows = Rf_nrows(x), width = Rf_ncols(x);
  SEXP result = PROTECT(Rf_allocVector(REALSXP, Rf_xlength(x)));
  SHALLOW_DUPLICATE_ATTRIB(result, x);
  for (R_xlen_t k = 0; k < width; k++) {
    const double *from = REAL_RO(x) + k * rows;
    double *to = REAL(result) + k * rows;
    double center = columns_number(centers, k, 0), scale = columns_number(scales, k, 1);
    for (R_xlen_t i = 0; i < rows; i++) to[i] = (from[i] - center) / scale;
    R_CheckUserInterrupt();
  }
  UNPROTECT(1);
  return result;
}
