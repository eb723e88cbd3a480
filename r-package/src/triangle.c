/* SPDX-License-Identifier: Apache-2.0 */
#include "triangle.h"

#include <string.h>

#include "numerics/least_squares.h"
#include "numerics/svd.h"
#include "numerics/triangle.h"

enum { ROWS_UNTIL_PAUSE = 1 << 16 };

static void triangle_check(SEXP values, R_xlen_t length, const char *name) {
  if (Rf_isNull(values) || (Rf_isReal(values) && Rf_xlength(values) == length)) return;
  Rf_error("%s must be NULL or %.0f doubles", name, (double)length);
}

static const double *triangle_numbers(SEXP values) {
  return Rf_isNull(values) ? NULL : REAL_RO(values);
}

static double *triangle_memory(size_t count) {
  return (double *)R_alloc(count + 1, sizeof(double));
}

/* A matrix of R, from rows that are `stride` apart. */
static SEXP triangle_matrix(const double *rows, size_t stride, size_t width) {
  SEXP result = Rf_allocMatrix(REALSXP, (int)width, (int)width);
  for (size_t i = 0; i < width; i++)
    for (size_t k = 0; k < width; k++) REAL(result)[k * width + i] = rows[i * stride + k];
  return result;
}

SEXP triangle_open(SEXP width, SEXP centered) {
  size_t columns = (size_t)Rf_asInteger(width);
  SEXP state = PROTECT(Rf_allocVector(REALSXP, (R_xlen_t)num_triangle_size(columns)));
  num_triangle_open(REAL(state), columns, Rf_asLogical(centered));
  UNPROTECT(1);
  return state;
}

SEXP triangle_add(SEXP state, SEXP x, SEXP last, SEXP roots, SEXP ones) {
  if (!Rf_isReal(x) || !Rf_isMatrix(x)) Rf_error("the rows are not a matrix of doubles");
  size_t count = (size_t)Rf_nrows(x), columns = (size_t)Rf_ncols(x);
  num_triangle_rows rows = {.columns = columns, .row_step = 1, .column_step = count};
  rows.ones = Rf_asLogical(ones);
  triangle_check(last, (R_xlen_t)count, "last");
  triangle_check(roots, (R_xlen_t)count, "roots");
  size_t width = rows.ones + columns + !Rf_isNull(last);
  triangle_check(state, (R_xlen_t)num_triangle_size(width), "state");
  SEXP result = PROTECT(Rf_duplicate(state));
  const double *y = triangle_numbers(last), *weights = triangle_numbers(roots);
  for (size_t from = 0; from < count; from += rows.count) {
    rows.count = count - from < ROWS_UNTIL_PAUSE ? count - from : ROWS_UNTIL_PAUSE;
    rows.x = REAL_RO(x) + from;
    rows.last = y ? y + from : NULL;
    rows.roots = weights ? weights + from : NULL;
    num_triangle_add(REAL(result), &rows);
    R_CheckUserInterrupt();
  }
  UNPROTECT(1);
  return result;
}

/* A message of `width` columns. */
static SEXP triangle_message(const double *numbers, size_t width) {
  R_xlen_t size = (R_xlen_t)num_triangle_message(width);
  SEXP result = Rf_allocVector(REALSXP, size);
  memcpy(REAL(result), numbers, (size_t)size * sizeof *numbers);
  return result;
}

/* A copy of a state or message, in the memory of a state. */
static double *triangle_state(SEXP numbers, size_t width, size_t size) {
  double *state = triangle_memory(num_triangle_size(width));
  triangle_check(numbers, (R_xlen_t)size, "state");
  num_triangle_open(state, width, 0);
  memcpy(state, REAL_RO(numbers), size * sizeof *state);
  return state;
}

SEXP triangle_close(SEXP state, SEXP width) {
  size_t columns = (size_t)Rf_asInteger(width);
  double *copy = triangle_state(state, columns, num_triangle_size(columns));
  num_triangle_close(copy, columns);
  return triangle_message(copy, columns);
}

SEXP triangle_merge(SEXP message, SEXP other, SEXP width) {
  size_t columns = (size_t)Rf_asInteger(width), size = num_triangle_message(columns);
  double *state = triangle_state(message, columns, size);
  triangle_check(other, (R_xlen_t)size, "other");
  num_triangle_merge(state, REAL_RO(other), columns);
  return triangle_message(state, columns);
}

SEXP triangle_finish(SEXP message, SEXP width) {
  size_t columns = (size_t)Rf_asInteger(width);
  double *copy = triangle_state(message, columns, num_triangle_message(columns));
  num_triangle_finish(copy, columns);
  return triangle_matrix(copy, columns, columns);
}

SEXP triangle_solve(SEXP x, SEXP tolerance) {
  const char *names[] = {"rank", "pivot",    "coefficients", "effects",
                         "root", "unscaled", "rest",         ""};
  if (!Rf_isReal(x) || !Rf_isMatrix(x)) Rf_error("the rows are not a matrix of doubles");
  size_t rows = (size_t)Rf_nrows(x), columns = (size_t)Rf_ncols(x) - 1;
  double *by_rows = triangle_memory(rows * (columns + 1));
  for (size_t i = 0; i < rows; i++)
    for (size_t k = 0; k <= columns; k++) by_rows[i * (columns + 1) + k] = REAL_RO(x)[k * rows + i];
  SEXP result = PROTECT(Rf_mkNamed(VECSXP, names));
  SET_VECTOR_ELT(result, 1, Rf_allocVector(INTSXP, (R_xlen_t)columns));
  SET_VECTOR_ELT(result, 2, Rf_allocVector(REALSXP, (R_xlen_t)columns));
  num_solution s = {.order = INTEGER(VECTOR_ELT(result, 1)),
                    .coefficients = REAL(VECTOR_ELT(result, 2)),
                    .effects = triangle_memory(columns),
                    .root = triangle_memory(columns * columns),
                    .unscaled = triangle_memory(columns * columns)};
  num_least_squares(by_rows, rows, columns, Rf_asReal(tolerance), &s,
                    triangle_memory(num_least_squares_scratch(rows, columns)));
  for (size_t k = 0; k < columns; k++) {
    s.order[k]++;
    if (R_IsNaN(s.coefficients[k])) s.coefficients[k] = NA_REAL;
  }
  SET_VECTOR_ELT(result, 0, Rf_ScalarInteger((int)s.rank));
  SET_VECTOR_ELT(result, 3, Rf_allocVector(REALSXP, (R_xlen_t)s.rank));
  if (s.rank > 0) memcpy(REAL(VECTOR_ELT(result, 3)), s.effects, s.rank * sizeof(double));
  SET_VECTOR_ELT(result, 4, triangle_matrix(s.root, columns, s.rank));
  SET_VECTOR_ELT(result, 5, triangle_matrix(s.unscaled, columns, s.rank));
  SET_VECTOR_ELT(result, 6, Rf_ScalarReal(s.rest));
  UNPROTECT(1);
  return result;
}

SEXP triangle_svd(SEXP x) {
  const char *names[] = {"d", "v", ""};
  if (!Rf_isReal(x) || !Rf_isMatrix(x) || Rf_nrows(x) != Rf_ncols(x))
    Rf_error("there is no square matrix of doubles");
  size_t width = (size_t)Rf_nrows(x);
  SEXP result = PROTECT(Rf_mkNamed(VECSXP, names));
  SET_VECTOR_ELT(result, 0, Rf_allocVector(REALSXP, (R_xlen_t)width));
  SET_VECTOR_ELT(result, 1, Rf_allocMatrix(REALSXP, (int)width, (int)width));
  double *rows = REAL(VECTOR_ELT(result, 1)); /* the vectors by rows are the columns of `v` */
  for (size_t i = 0; i < width; i++)
    for (size_t k = 0; k < width; k++) rows[i * width + k] = REAL_RO(x)[k * width + i];
  num_svd(rows, width, REAL(VECTOR_ELT(result, 0)), triangle_memory(num_svd_scratch(width)));
  UNPROTECT(1);
  return result;
}
