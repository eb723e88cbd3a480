/* SPDX-License-Identifier: Apache-2.0 */
#include "columns.h"

#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "numerics/moments.h"

enum { ROWS_UNTIL_PAUSE = 1 << 16 };

/* `numbers` are NULL or a double for each column of `x`. */
static void columns_check(SEXP x, SEXP numbers) {
  if (!Rf_isReal(x) || !Rf_isMatrix(x)) Rf_error("the columns are not a matrix of doubles");
  if (Rf_isNull(numbers) || (Rf_isReal(numbers) && Rf_xlength(numbers) == Rf_ncols(x))) return;
  Rf_error("there are %d columns, and not a double for each", Rf_ncols(x));
}

/* NULL, or a weight for each row. */
static const double *columns_weights(SEXP x, SEXP weights) {
  if (Rf_isNull(weights)) return NULL;
  if (!Rf_isReal(weights) || Rf_xlength(weights) != Rf_nrows(x))
    Rf_error("there are %d rows, and not a weight for each", Rf_nrows(x));
  return REAL_RO(weights);
}

SEXP columns_join(SEXP parts, SEXP width) {
  R_xlen_t rows = 0, columns = Rf_asInteger(width);
  for (R_xlen_t p = 0; p < Rf_xlength(parts); p++)
    rows += Rf_xlength(VECTOR_ELT(VECTOR_ELT(parts, p), 0));
  if (rows > INT_MAX) Rf_error("a matrix of R has no %.0f rows: pass more ranks", (double)rows);
  SEXP result = PROTECT(Rf_allocMatrix(REALSXP, (int)rows, (int)columns));
  for (R_xlen_t p = 0, from = 0; p < Rf_xlength(parts); p++) {
    SEXP part = VECTOR_ELT(parts, p);
    R_xlen_t count = Rf_xlength(VECTOR_ELT(part, 0));
    for (R_xlen_t k = 0; k < columns; k++) {
      SEXP column = PROTECT(Rf_coerceVector(VECTOR_ELT(part, k), REALSXP));
      memcpy(REAL(result) + k * rows + from, REAL_RO(column), (size_t)count * sizeof(double));
      UNPROTECT(1);
    }
    from += count;
  }
  UNPROTECT(1);
  return result;
}

static double columns_number(SEXP numbers, R_xlen_t column, double absent) {
  return Rf_isNull(numbers) ? absent : REAL_RO(numbers)[column];
}

SEXP columns_moments(SEXP x, SEXP weights) {
  columns_check(x, R_NilValue);
  const double *of_rows = columns_weights(x, weights);
  size_t rows = (size_t)Rf_nrows(x), width = (size_t)Rf_ncols(x);
  double *scratch = (double *)R_alloc(num_moments_scratch(width) + 1, sizeof *scratch);
  SEXP result = PROTECT(Rf_allocVector(REALSXP, (R_xlen_t)num_moments_size(width)));
  num_moments_open(REAL(result), width);
  for (size_t from = 0; from < rows; from += ROWS_UNTIL_PAUSE) {
    size_t count = rows - from < ROWS_UNTIL_PAUSE ? rows - from : ROWS_UNTIL_PAUSE;
    num_moments_add(REAL(result), count, width, REAL_RO(x) + from, 1, rows,
                    of_rows ? of_rows + from : NULL, scratch);
    R_CheckUserInterrupt();
  }
  UNPROTECT(1);
  return result;
}

SEXP columns_known(SEXP moments, SEXP width) {
  const char *names[] = {"counts", "weights", "means", "squares", ""};
  size_t columns = (size_t)Rf_asInteger(width), size = num_moments_size(columns);
  double *state = (double *)R_alloc(size + 1, sizeof *state);
  num_moments_open(state, columns);
  for (size_t from = 0; from + size <= (size_t)Rf_xlength(moments) && size > 0; from += size)
    num_moments_merge(state, REAL_RO(moments) + from, columns);
  SEXP result = PROTECT(Rf_mkNamed(VECSXP, names));
  for (int i = 0; i < 4; i++) SET_VECTOR_ELT(result, i, Rf_allocVector(REALSXP, (R_xlen_t)columns));
  num_moments_close(state, columns, REAL(VECTOR_ELT(result, 0)), REAL(VECTOR_ELT(result, 1)),
                    REAL(VECTOR_ELT(result, 2)), REAL(VECTOR_ELT(result, 3)));
  UNPROTECT(1);
  return result;
}

SEXP columns_codes(SEXP x) {
  columns_check(x, R_NilValue);
  R_xlen_t rows = Rf_nrows(x), width = Rf_ncols(x);
  SEXP result = PROTECT(Rf_allocVector(LGLSXP, width));
  for (R_xlen_t k = 0; k < width; k++) {
    const double *column = REAL_RO(x) + k * rows;
    R_xlen_t i = 0;
    while (i < rows && (column[i] == 0 || fabs(column[i]) == 1)) i++;
    LOGICAL(result)[k] = i == rows;
  }
  UNPROTECT(1);
  return result;
}

/* Whether a double holds the integer: 2^63 and more are no int64. */
static bool columns_holds(int64_t number) {
  double nearest = (double)number;
  return nearest < 0x1p63 && (int64_t)nearest == number;
}

SEXP columns_integer64(SEXP x) {
  if (!Rf_isReal(x)) Rf_error("integer64 is stored in doubles");
  R_xlen_t count = Rf_xlength(x);
  SEXP result = PROTECT(Rf_allocVector(REALSXP, count));
  for (R_xlen_t i = 0; i < count; i++) {
    int64_t number;
    memcpy(&number, REAL_RO(x) + i, sizeof number);
    REAL(result)[i] = number == INT64_MIN ? NA_REAL : (double)number;
    if (number == INT64_MIN || columns_holds(number)) continue;
    Rf_setAttrib(result, Rf_install("inexact"), Rf_ScalarReal((double)i + 1));
    break;
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
