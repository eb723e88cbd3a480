/* SPDX-License-Identifier: Apache-2.0 */
#include "triangle.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { BLOCK_BYTES = 1 << 18, BLOCK_LEAST = 32, BLOCK_MOST = 512, PANEL_BLOCKS = 64 };

/* The block has `rows` rows, and its columns are `stride` apart. R is stored by rows. */
typedef struct {
  size_t width, stride, rows;
  double *block;
} triangle_block;

/* Adds v'c to the four numbers of `sum`, for the four columns c from `first`. */
static void triangle_dot(const double *v, const double *first, size_t stride, size_t rows,
                         double sum[4]) {
  const double *a = first, *b = a + stride, *c = b + stride, *d = c + stride;
  double s = 0, t = 0, u = 0, w = 0;
  for (size_t i = 0; i < rows; i++) {
    s += v[i] * a[i];
    t += v[i] * b[i];
    u += v[i] * c[i];
    w += v[i] * d[i];
  }
  sum[0] += s, sum[1] += t, sum[2] += u, sum[3] += w;
}

static void triangle_subtract(const double *restrict v, double factor, double *restrict column,
                              size_t rows) {
  for (size_t i = 0; i < rows; i++) column[i] -= factor * v[i];
}

/* Applies the reflection of the vector (1, v) to the columns from `first`: `row` of R, and the block. */
static void triangle_reflect(triangle_block *b, double *row, const double *v, double tau,
                             size_t first) {
  size_t k = first;
  for (; k + 4 <= b->width; k += 4) {
    double sum[4] = {row[k], row[k + 1], row[k + 2], row[k + 3]};
    triangle_dot(v, b->block + k * b->stride, b->stride, b->rows, sum);
    for (size_t i = 0; i < 4; i++) {
      row[k + i] -= tau * sum[i];
      triangle_subtract(v, tau * sum[i], b->block + (k + i) * b->stride, b->rows);
    }
  }
  for (; k < b->width; k++) {
    double *column = b->block + k * b->stride, sum = row[k];
    for (size_t i = 0; i < b->rows; i++) sum += v[i] * column[i];
    row[k] -= tau * sum;
    triangle_subtract(v, tau * sum, column, b->rows);
  }
}

/* The norm of a column, which neither overflows nor underflows where the norm does not. */
static double triangle_norm(const double *column, size_t rows) {
  double squares = 0, largest = 0;
  for (size_t i = 0; i < rows; i++) squares += column[i] * column[i];
  if (isnan(squares) || (squares > 1e-280 && squares < 1e280)) return sqrt(squares);
  for (size_t i = 0; i < rows; i++) {
    if (!(fabs(column[i]) <= largest)) largest = fabs(column[i]);
  }
  if (largest == 0 || !isfinite(largest)) return largest;
  squares = 0;
  for (size_t i = 0; i < rows; i++) squares += (column[i] / largest) * (column[i] / largest);
  return largest * sqrt(squares);
}

/* Decomposes R with the block under it. */
static void triangle_add(triangle_block *b, double *r) {
  for (size_t j = 0; j < b->width; j++) {
    double *row = r + j * b->width, *v = b->block + j * b->stride, norm = triangle_norm(v, b->rows);
    if (norm == 0) continue;
    double alpha = row[j], beta = -copysign(hypot(alpha, norm), alpha);
    for (size_t i = 0; i < b->rows; i++) v[i] /= alpha - beta;
    row[j] = beta;
    triangle_reflect(b, row, v, (beta - alpha) / beta, j + 1);
  }
}

/* Takes the rows of R, by rows, into the block. */
static void triangle_take(triangle_block *b, const double *r, size_t from) {
  for (size_t k = 0; k < b->width; k++) {
    for (size_t i = 0; i < b->rows; i++) b->block[k * b->stride + i] = r[(from + i) * b->width + k];
  }
}

/* Adds the triangle of a panel to R. */
static void triangle_merge(triangle_block *b, double *r, double *panel) {
  for (size_t from = 0; from < b->width; from += b->rows) {
    b->rows = b->stride < b->width - from ? b->stride : b->width - from;
    triangle_take(b, panel, from);
    triangle_add(b, r);
  }
  memset(panel, 0, b->width * b->width * sizeof *panel);
}

/* Takes rows of a column, and multiplies them. A row of weight 0 may have any value. */
static void triangle_copy(double *to, const double *from, const double *weights, size_t rows) {
  if (!weights)
    memcpy(to, from, rows * sizeof *to);
  else
    for (size_t i = 0; i < rows; i++) to[i] = weights[i] == 0 ? 0 : from[i] * weights[i];
}

static size_t triangle_stride(size_t width) {
  size_t rows = BLOCK_BYTES / sizeof(double) / (width ? width : 1);
  return rows < BLOCK_LEAST ? BLOCK_LEAST : rows > BLOCK_MOST ? BLOCK_MOST : rows;
}

/* Takes the next block, from row `from`. */
static void triangle_read(triangle_block *b, SEXP x, SEXP y, const double *weights, size_t from) {
  size_t count = (size_t)Rf_nrows(x), columns = (size_t)Rf_ncols(x);
  b->rows = b->stride < count - from ? b->stride : count - from;
  for (size_t k = 0; k < b->width; k++) {
    const double *column = k < columns ? REAL_RO(x) + k * count : REAL_RO(y);
    triangle_copy(b->block + k * b->stride, column + from, weights ? weights + from : NULL,
                  b->rows);
  }
}

static double *triangle_zero(size_t width) {
  double *r = (double *)R_alloc(width * width + 1, sizeof *r);
  memset(r, 0, width * width * sizeof *r);
  return r;
}

/* Transposes between rows and columns. */
static void triangle_turn(double *to, const double *from, size_t width) {
  for (size_t i = 0; i < width; i++) {
    for (size_t k = 0; k < width; k++) to[i * width + k] = from[k * width + i];
  }
}

static void triangle_check(SEXP values, R_xlen_t length, const char *name) {
  if (Rf_isNull(values) || (Rf_isReal(values) && Rf_xlength(values) == length)) return;
  Rf_error("%s must be NULL or %.0f doubles", name, (double)length);
}

SEXP triangle_of(SEXP x, SEXP y, SEXP weights, SEXP above) {
  if (!Rf_isReal(x) || !Rf_isMatrix(x)) Rf_error("the rows are not a matrix of doubles");
  size_t count = (size_t)Rf_nrows(x), width = (size_t)Rf_ncols(x) + !Rf_isNull(y);
  triangle_check(y, (R_xlen_t)count, "y");
  triangle_check(weights, (R_xlen_t)count, "weights");
  triangle_check(above, (R_xlen_t)(width * width), "above");
  triangle_block b = {.width = width, .stride = triangle_stride(width)};
  b.block = (double *)R_alloc(b.stride * width + 1, sizeof *b.block);
  double *r = triangle_zero(width), *panel = triangle_zero(width);
  if (!Rf_isNull(above)) triangle_turn(r, REAL_RO(above), width);
  for (size_t from = 0, blocks = 1; from < count; from += b.stride, blocks++) {
    triangle_read(&b, x, y, Rf_isNull(weights) ? NULL : REAL_RO(weights), from);
    triangle_add(&b, panel);
    if (blocks % PANEL_BLOCKS != 0) continue;
    triangle_merge(&b, r, panel);
    R_CheckUserInterrupt();
  }
  triangle_merge(&b, r, panel);
  SEXP result = PROTECT(Rf_allocMatrix(REALSXP, (int)width, (int)width));
  triangle_turn(REAL(result), r, width);
  UNPROTECT(1);
  return result;
}
