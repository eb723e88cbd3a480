/* SPDX-License-Identifier: Apache-2.0 */
#include "gram.h"

#include <string.h>

double gram_dot(const double *first, const double *second) {
  double lanes[4] = {0};
  for (size_t i = 0; i < ROWS_OF_TILE; i += 4) {
    for (size_t lane = 0; lane < 4; lane++) lanes[lane] += first[i + lane] * second[i + lane];
  }
  return (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]);
}

void gram_add(double *sums, size_t stride, const double *const *left, size_t lefts,
              const double *const *right, size_t rights, const double *weights) {
  for (size_t j = 0; j < lefts; j++) {
    double weighted[ROWS_OF_TILE];
    for (size_t i = 0; i < ROWS_OF_TILE; i++) weighted[i] = weights[i] * left[j][i];
    for (size_t k = left == right ? j : 0; k < rights; k++)
      sums[j * stride + k] += gram_dot(weighted, right[k]);
  }
}

void gram_mirror(double *sums, size_t width) {
  for (size_t j = 0; j < width; j++) {
    for (size_t k = 0; k < j; k++) sums[j * width + k] = sums[k * width + j];
  }
}

gram gram_open(size_t width, double *sums) {
  gram found = {.width = width, .sums = sums};
  found.values = (double *)R_alloc((width + 1) * ROWS_OF_TILE, sizeof *found.values);
  found.weights = found.values + width * ROWS_OF_TILE;
  found.columns = (const double **)R_alloc(width + 1, sizeof *found.columns);
  for (size_t k = 0; k < width; k++) found.columns[k] = found.values + k * ROWS_OF_TILE;
  memset(found.values, 0, (width + 1) * ROWS_OF_TILE * sizeof *found.values);
  memset(sums, 0, width * width * sizeof *sums);
  return found;
}

static void gram_flush(gram *found) {
  gram_add(found->sums, found->width, found->columns, found->width, found->columns, found->width,
           found->weights);
  memset(found->weights, 0, ROWS_OF_TILE * sizeof *found->weights);
  found->count = 0;
}

void gram_row(gram *found, const double *row, double weight) {
  for (size_t k = 0; k < found->width; k++) found->values[k * ROWS_OF_TILE + found->count] = row[k];
  found->weights[found->count++] = weight;
  if (found->count == ROWS_OF_TILE) gram_flush(found);
}

void gram_close(gram *found) {
  gram_flush(found);
  gram_mirror(found->sums, found->width);
}

SEXP gram_of(SEXP x, SEXP weights) {
  if (!Rf_isReal(x) || !Rf_isMatrix(x)) Rf_error("the rows are not a matrix of doubles");
  R_xlen_t count = Rf_ncols(x), width = Rf_nrows(x);
  if (!Rf_isReal(weights) || Rf_xlength(weights) != count)
    Rf_error("the weights are not %.0f doubles", (double)count);
  SEXP result = PROTECT(Rf_allocMatrix(REALSXP, (int)width, (int)width));
  gram found = gram_open((size_t)width, REAL(result));
  for (R_xlen_t i = 0; i < count; i++) {
    if (i % ((R_xlen_t)TILES_UNTIL_PAUSE * ROWS_OF_TILE) == 0) R_CheckUserInterrupt();
    gram_row(&found, REAL_RO(x) + i * width, REAL_RO(weights)[i]);
  }
  gram_close(&found);
  UNPROTECT(1);
  return result;
}
