/* SPDX-License-Identifier: Apache-2.0 */
#include "kmeans.h"

#include <math.h>
#include <string.h>

#include "numerics/kmeans.h"
#include "numerics/kmeans_start.h"

enum { ROWS_UNTIL_PAUSE = 1 << 16 };

/* ---- Arguments -------------------------------------------------------------------------------------------------- */

static double *kmeans_memory(size_t count) {
  return (double *)R_alloc(count + 1, sizeof(double));
}

static num_rows kmeans_rows(SEXP x, SEXP shift) {
  return (num_rows){.count = (size_t)Rf_ncols(x),
                    .width = (size_t)Rf_nrows(x),
                    .x = REAL_RO(x),
                    .shift = Rf_isNull(shift) ? NULL : REAL_RO(shift)};
}

/* The rows of `rows` from `from` on, of which the user may interrupt R. */
static num_rows kmeans_part(const num_rows *rows, size_t from) {
  num_rows part = *rows;
  R_CheckUserInterrupt();
  part.x += from * rows->width;
  part.count = rows->count - from < ROWS_UNTIL_PAUSE ? rows->count - from : ROWS_UNTIL_PAUSE;
  return part;
}

static num_random kmeans_random(SEXP seed, SEXP rank, int round) {
  return (num_random){.seed = (uint64_t)Rf_asReal(seed),
                      .stream = (uint64_t)Rf_asInteger(rank),
                      .round = (uint64_t)round};
}

static SEXP kmeans_zero(size_t rows, size_t columns) {
  SEXP matrix = Rf_allocMatrix(REALSXP, (int)rows, (int)columns);
  memset(REAL(matrix), 0, rows * columns * sizeof(double));
  return matrix;
}

/* ---- Distances and sums ----------------------------------------------------------------------------------------- */

SEXP kmeans_nearest(SEXP x, SEXP shift, SEXP centers) {
  const char *names[] = {"nearest", "best", "second", ""};
  num_rows rows = kmeans_rows(x, shift), part;
  size_t clusters = (size_t)Rf_ncols(centers);
  double *scratch = kmeans_memory(num_kmeans_scratch(clusters, rows.width));
  SEXP result = PROTECT(Rf_mkNamed(VECSXP, names));
  SET_VECTOR_ELT(result, 0, Rf_allocVector(INTSXP, (R_xlen_t)rows.count));
  for (int i = 1; i < 3; i++)
    SET_VECTOR_ELT(result, i, Rf_allocVector(REALSXP, (R_xlen_t)rows.count));
  int *nearest = INTEGER(VECTOR_ELT(result, 0));
  double *best = REAL(VECTOR_ELT(result, 1)), *second = REAL(VECTOR_ELT(result, 2));
  for (size_t from = 0; from < rows.count; from += part.count) {
    part = kmeans_part(&rows, from);
    num_kmeans_nearest(&part, REAL_RO(centers), clusters, nearest + from, best + from,
                       second + from, scratch);
  }
  UNPROTECT(1);
  return result;
}

SEXP kmeans_distance(SEXP x, SEXP shift, SEXP nearest, SEXP centers) {
  num_rows rows = kmeans_rows(x, shift), part;
  double *scratch = kmeans_memory(rows.width);
  SEXP result = PROTECT(Rf_allocVector(REALSXP, (R_xlen_t)rows.count));
  for (size_t from = 0; from < rows.count; from += part.count) {
    part = kmeans_part(&rows, from);
    num_kmeans_distance(&part, INTEGER_RO(nearest) + from, REAL_RO(centers), REAL(result) + from,
                        scratch);
  }
  UNPROTECT(1);
  return result;
}

SEXP kmeans_sums(SEXP x, SEXP shift, SEXP nearest, SEXP clusters) {
  num_rows rows = kmeans_rows(x, shift), part;
  double *scratch = kmeans_memory(rows.width);
  SEXP result =
      PROTECT(kmeans_zero(rows.width + NUM_KMEANS_COLUMNS, (size_t)Rf_asInteger(clusters)));
  for (size_t from = 0; from < rows.count; from += part.count) {
    part = kmeans_part(&rows, from);
    num_kmeans_sums(&part, INTEGER_RO(nearest) + from, REAL(result), scratch);
  }
  UNPROTECT(1);
  return result;
}

/* ---- Lloyd's iterations ----------------------------------------------------------------------------------------- */

SEXP kmeans_means(SEXP sums, SEXP centers) {
  const char *names[] = {"centers", "empty", ""};
  SEXP result = PROTECT(Rf_mkNamed(VECSXP, names));
  SET_VECTOR_ELT(result, 0, Rf_duplicate(centers));
  size_t empty = num_kmeans_means(REAL_RO(sums), (size_t)Rf_ncols(centers),
                                  (size_t)Rf_nrows(centers), REAL(VECTOR_ELT(result, 0)));
  SET_VECTOR_ELT(result, 1, Rf_ScalarInteger((int)empty));
  UNPROTECT(1);
  return result;
}

SEXP kmeans_refill(SEXP sums, SEXP centers, SEXP far) {
  SEXP result = PROTECT(Rf_duplicate(centers));
  num_kmeans_refill(REAL_RO(sums), (size_t)Rf_ncols(centers), (size_t)Rf_nrows(centers),
                    REAL_RO(far), (size_t)Rf_ncols(far), REAL(result));
  UNPROTECT(1);
  return result;
}

SEXP kmeans_moves(SEXP before, SEXP centers) {
  const char *names[] = {"moves", "shift", "half", ""};
  size_t clusters = (size_t)Rf_ncols(centers), width = (size_t)Rf_nrows(centers);
  SEXP result = PROTECT(Rf_mkNamed(VECSXP, names));
  SET_VECTOR_ELT(result, 0, Rf_allocVector(REALSXP, (R_xlen_t)clusters));
  SET_VECTOR_ELT(result, 2, Rf_allocVector(REALSXP, (R_xlen_t)clusters));
  double shift = num_kmeans_moves(REAL_RO(before), REAL_RO(centers), clusters, width,
                                  REAL(VECTOR_ELT(result, 0)));
  SET_VECTOR_ELT(result, 1, Rf_ScalarReal(shift));
  num_kmeans_half(REAL_RO(centers), clusters, width, REAL(VECTOR_ELT(result, 2)));
  UNPROTECT(1);
  return result;
}

/* A list with copies of the state. */
static SEXP kmeans_copy(SEXP state, size_t clusters, size_t width) {
  const char *names[] = {"nearest", "upper", "lower", "changed", "delta", ""};
  SEXP result = PROTECT(Rf_mkNamed(VECSXP, names));
  for (int i = 0; i < 3; i++) SET_VECTOR_ELT(result, i, Rf_duplicate(VECTOR_ELT(state, i)));
  SET_VECTOR_ELT(result, 4, kmeans_zero(width + NUM_KMEANS_COLUMNS, clusters));
  UNPROTECT(1);
  return result;
}

SEXP kmeans_assign(SEXP x, SEXP shift, SEXP centers, SEXP moved, SEXP state) {
  num_rows rows = kmeans_rows(x, shift), part;
  size_t clusters = (size_t)Rf_ncols(centers), changed = 0;
  double *scratch = kmeans_memory(num_kmeans_scratch(clusters, rows.width));
  const double *moves = REAL_RO(VECTOR_ELT(moved, 0)), *half = REAL_RO(VECTOR_ELT(moved, 2));
  SEXP result = PROTECT(kmeans_copy(state, clusters, rows.width));
  int *nearest = INTEGER(VECTOR_ELT(result, 0));
  double *upper = REAL(VECTOR_ELT(result, 1)), *lower = REAL(VECTOR_ELT(result, 2));
  for (size_t from = 0; from < rows.count; from += part.count) {
    part = kmeans_part(&rows, from);
    num_kmeans_bounds bounds = {nearest + from, upper + from, lower + from};
    changed += num_kmeans_assign(&part, REAL_RO(centers), clusters, moves, half, &bounds,
                                 REAL(VECTOR_ELT(result, 4)), scratch);
  }
  SET_VECTOR_ELT(result, 3, Rf_ScalarReal((double)changed));
  UNPROTECT(1);
  return result;
}

/* ---- Start ------------------------------------------------------------------------------------------------------ */

SEXP kmeans_first(SEXP x, SEXP shift, SEXP seed, SEXP rank) {
  num_rows rows = kmeans_rows(x, shift);
  num_random random = kmeans_random(seed, rank, 0);
  SEXP result = PROTECT(kmeans_zero(rows.width + 1, 1));
  REAL(result)[0] = INFINITY;
  num_kmeans_first(&rows, 0, &random, REAL(result));
  UNPROTECT(1);
  return result;
}

SEXP kmeans_total(SEXP squares) {
  num_rows rows = {.count = (size_t)Rf_xlength(squares)};
  double total = 0;
  num_kmeans_total(&rows, REAL_RO(squares), &total);
  return Rf_ScalarReal(total);
}

SEXP kmeans_draw(SEXP squares, SEXP factor, SEXP seed, SEXP rank, SEXP round) {
  num_rows rows = {.count = (size_t)Rf_xlength(squares)};
  num_random random = kmeans_random(seed, rank, Rf_asInteger(round));
  int32_t *drawn = (int32_t *)R_alloc(rows.count + 1, sizeof *drawn);
  size_t count = num_kmeans_draw(&rows, REAL_RO(squares), Rf_asReal(factor), 0, &random, drawn);
  SEXP result = PROTECT(Rf_allocVector(INTSXP, (R_xlen_t)count));
  for (size_t i = 0; i < count; i++) INTEGER(result)[i] = drawn[i] + 1;
  UNPROTECT(1);
  return result;
}

SEXP kmeans_choose(SEXP x, SEXP weights, SEXP clusters, SEXP seed) {
  num_rows rows = kmeans_rows(x, R_NilValue);
  size_t count = (size_t)Rf_asInteger(clusters);
  rows.weights = REAL_RO(weights);
  double *scratch = kmeans_memory(num_kmeans_choose_scratch(rows.count, count, rows.width));
  SEXP result = PROTECT(Rf_allocMatrix(REALSXP, (int)rows.width, (int)count));
  num_kmeans_choose(&rows, count, (uint64_t)Rf_asReal(seed), REAL(result), scratch);
  UNPROTECT(1);
  return result;
}
