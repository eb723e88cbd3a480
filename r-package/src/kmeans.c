/* SPDX-License-Identifier: Apache-2.0 */
#include "kmeans.h"

#include <math.h>
#include <string.h>

/* Rows are looked at in blocks. The compiler makes vector instructions of loops of this fixed length. */
enum { BLOCK = 64 };

/* Rows of a block: `values` has a column after another, whose rest is 0. */
typedef struct {
  R_xlen_t count, width;
  double *values;
} kmeans_block;

static kmeans_block kmeans_open(SEXP x) {
  kmeans_block block = {.width = Rf_ncols(x)};
  size_t size = (size_t)block.width * BLOCK + 1;
  block.values = (double *)R_alloc(size, sizeof *block.values);
  memset(block.values, 0, size * sizeof *block.values);
  return block;
}

static void kmeans_take(kmeans_block *block, SEXP x, SEXP at, R_xlen_t from) {
  R_xlen_t left = Rf_xlength(at) - from, rows = Rf_nrows(x);
  const int *places = INTEGER_RO(at) + from;
  block->count = left < BLOCK ? left : BLOCK;
  for (R_xlen_t k = 0; k < block->width; k++) {
    const double *column = REAL_RO(x) + k * rows - 1;
    double *to = block->values + k * BLOCK;
    for (R_xlen_t i = 0; i < block->count; i++) to[i] = column[places[i]];
  }
}

/* The squared distances of the rows of the block to a center. */
static void kmeans_squares(const kmeans_block *block, SEXP centers, R_xlen_t center,
                           double *restrict squares) {
  memset(squares, 0, BLOCK * sizeof *squares);
  for (R_xlen_t k = 0; k < block->width; k++) {
    const double *column = block->values + k * BLOCK,
                 middle = REAL_RO(centers)[k * Rf_nrows(centers) + center];
    for (int i = 0; i < BLOCK; i++) squares[i] += (column[i] - middle) * (column[i] - middle);
  }
}

/* The squared distances of each row to the nearest center and to the second nearest, and the number of the center. */
typedef struct {
  double best[BLOCK], second[BLOCK], nearest[BLOCK];
} kmeans_found;

/* Without branches, which processors cannot predict here. */
static void kmeans_compare(kmeans_found *found, const double *squares, double center) {
  for (int i = 0; i < BLOCK; i++) {
    double square = squares[i], best = found->best[i], second = found->second[i];
    double larger = square > best ? square : best;
    found->second[i] = larger < second ? larger : second;
    found->nearest[i] = square < best ? center : found->nearest[i];
    found->best[i] = square < best ? square : best;
  }
}

static void kmeans_look(const kmeans_block *block, SEXP centers, kmeans_found *found) {
  double squares[BLOCK];
  for (int i = 0; i < BLOCK; i++) {
    found->best[i] = found->second[i] = INFINITY;
    found->nearest[i] = 1;
  }
  for (R_xlen_t center = 0; center < Rf_nrows(centers); center++) {
    kmeans_squares(block, centers, center, squares);
    kmeans_compare(found, squares, (double)center + 1);
  }
}

SEXP kmeans_nearest(SEXP x, SEXP centers, SEXP at) {
  const char *names[] = {"cluster", "upper", "lower", ""};
  R_xlen_t count = Rf_xlength(at);
  kmeans_block block = kmeans_open(x);
  kmeans_found found;
  SEXP result = PROTECT(Rf_mkNamed(VECSXP, names));
  SET_VECTOR_ELT(result, 0, Rf_allocVector(INTSXP, count));
  for (int i = 1; i < 3; i++) SET_VECTOR_ELT(result, i, Rf_allocVector(REALSXP, count));
  for (R_xlen_t from = 0; from < count; from += BLOCK) {
    kmeans_take(&block, x, at, from);
    kmeans_look(&block, centers, &found);
    int *cluster = INTEGER(VECTOR_ELT(result, 0)) + from;
    double *upper = REAL(VECTOR_ELT(result, 1)) + from, *lower = REAL(VECTOR_ELT(result, 2)) + from;
    for (R_xlen_t i = 0; i < block.count; i++) {
      cluster[i] = (int)found.nearest[i];
      upper[i] = sqrt(found.best[i]);
      lower[i] = sqrt(found.second[i]);
    }
  }
  UNPROTECT(1);
  return result;
}

SEXP kmeans_distance(SEXP x, SEXP centers, SEXP cluster, SEXP at) {
  R_xlen_t count = Rf_xlength(at), k = Rf_nrows(centers);
  kmeans_block block = kmeans_open(x);
  SEXP result = PROTECT(Rf_allocVector(REALSXP, count));
  memset(REAL(result), 0, (size_t)count * sizeof(double));
  for (R_xlen_t from = 0; from < count; from += BLOCK) {
    double *found = REAL(result) + from;
    const int *places = INTEGER_RO(at) + from;
    kmeans_take(&block, x, at, from);
    for (R_xlen_t j = 0; j < block.width; j++) {
      const double *column = block.values + j * BLOCK, *middles = REAL_RO(centers) + j * k - 1;
      for (R_xlen_t i = 0; i < block.count; i++) {
        double gap = column[i] - middles[INTEGER_RO(cluster)[places[i] - 1]];
        found[i] += gap * gap;
      }
    }
    for (R_xlen_t i = 0; i < block.count; i++) found[i] = sqrt(found[i]);
  }
  UNPROTECT(1);
  return result;
}

SEXP kmeans_sums(SEXP x, SEXP cluster, SEXP k, SEXP at) {
  R_xlen_t count = Rf_xlength(at), rows = Rf_nrows(x), width = Rf_ncols(x),
           clusters = Rf_asInteger(k);
  SEXP result = PROTECT(Rf_allocMatrix(REALSXP, (int)clusters, (int)width + 1));
  memset(REAL(result), 0, (size_t)Rf_xlength(result) * sizeof(double));
  const int *places = INTEGER_RO(at), *own = INTEGER_RO(cluster);
  for (R_xlen_t i = 0; i < count; i++) REAL(result)[own[places[i] - 1] - 1]++;
  for (R_xlen_t j = 0; j < width; j++) {
    const double *column = REAL_RO(x) + j * rows - 1;
    double *sums = REAL(result) + (j + 1) * clusters - 1;
    for (R_xlen_t i = 0; i < count; i++) sums[own[places[i] - 1]] += column[places[i]];
  }
  UNPROTECT(1);
  return result;
}
