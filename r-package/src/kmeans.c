/* SPDX-License-Identifier: Apache-2.0 */
#include "kmeans.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

/* Rows are looked at in blocks. The compiler makes vector instructions of loops of this fixed length. */
enum { BLOCK = 64, ROWS_UNTIL_PAUSE = 1 << 16 };

/* Lets the user interrupt R between rows. */
static void kmeans_pause(R_xlen_t row) {
  if (row % ROWS_UNTIL_PAUSE == 0) R_CheckUserInterrupt();
}

/* Rows of a block: `values` has a column after another, whose rest is 0. */
typedef struct {
  R_xlen_t count, width;
  double *values;
} kmeans_block;

static kmeans_block kmeans_open(SEXP x) {
  kmeans_block block = {.width = Rf_nrows(x)};
  size_t size = (size_t)block.width * BLOCK + 1;
  block.values = (double *)R_alloc(size, sizeof *block.values);
  memset(block.values, 0, size * sizeof *block.values);
  return block;
}

static void kmeans_take(kmeans_block *block, SEXP x, SEXP at, R_xlen_t from) {
  R_xlen_t left = Rf_xlength(at) - from;
  block->count = left < BLOCK ? left : BLOCK;
  for (R_xlen_t i = 0; i < block->count; i++) {
    const double *row = REAL_RO(x) + (INTEGER_RO(at)[from + i] - 1) * block->width;
    for (R_xlen_t k = 0; k < block->width; k++) block->values[k * BLOCK + i] = row[k];
  }
}

/* Adds the squared gaps of two columns from their middles. */
static void kmeans_add_two(const double *first, double middle, const double *second, double other,
                           double *restrict squares) {
  for (int i = 0; i < BLOCK; i++) {
    double gap = first[i] - middle, further = second[i] - other;
    squares[i] += gap * gap + further * further;
  }
}

/* The squared distances of the rows of the block to a center. Two columns at once halve what is read and written. */
static void kmeans_squares(const kmeans_block *block, SEXP centers, R_xlen_t center,
                           double *restrict squares) {
  static const double none[BLOCK];
  R_xlen_t stride = Rf_nrows(centers);
  const double *middle = REAL_RO(centers) + center, *column = block->values;
  memset(squares, 0, BLOCK * sizeof *squares);
  for (R_xlen_t k = 0; k < block->width; k += 2, column += 2 * BLOCK, middle += 2 * stride) {
    bool odd = k + 1 == block->width;
    kmeans_add_two(column, *middle, odd ? none : column + BLOCK, odd ? 0 : middle[stride], squares);
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
    kmeans_pause(from);
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
  R_xlen_t count = Rf_xlength(at), width = Rf_nrows(x), k = Rf_nrows(centers);
  SEXP result = PROTECT(Rf_allocVector(REALSXP, count));
  for (R_xlen_t i = 0; i < count; i++) {
    kmeans_pause(i);
    R_xlen_t place = INTEGER_RO(at)[i] - 1;
    const double *row = REAL_RO(x) + place * width,
                 *center = REAL_RO(centers) + INTEGER_RO(cluster)[place] - 1;
    double squares = 0;
    for (R_xlen_t j = 0; j < width; j++)
      squares += (row[j] - center[j * k]) * (row[j] - center[j * k]);
    REAL(result)[i] = sqrt(squares);
  }
  UNPROTECT(1);
  return result;
}

SEXP kmeans_sums(SEXP x, SEXP cluster, SEXP k, SEXP at) {
  R_xlen_t count = Rf_xlength(at), width = Rf_nrows(x), clusters = Rf_asInteger(k);
  SEXP result = PROTECT(Rf_allocMatrix(REALSXP, (int)clusters, (int)width + 1));
  memset(REAL(result), 0, (size_t)Rf_xlength(result) * sizeof(double));
  for (R_xlen_t i = 0; i < count; i++) {
    kmeans_pause(i);
    R_xlen_t place = INTEGER_RO(at)[i] - 1;
    const double *row = REAL_RO(x) + place * width;
    double *sums = REAL(result) + INTEGER_RO(cluster)[place] - 1;
    sums[0]++;
    for (R_xlen_t j = 0; j < width; j++) sums[(j + 1) * clusters] += row[j];
  }
  UNPROTECT(1);
  return result;
}
