/* SPDX-License-Identifier: Apache-2.0 */
#include "triangle.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "numerics/lanes.h"

enum { BLOCK_BYTES = 1 << 18, BLOCK_LEAST = 32, BLOCK_MOST = 512, PANEL_BLOCKS = 64 };

/* The block has `rows` rows, and its columns are `stride` apart, both multiples of LANES. R is stored by rows. */
typedef struct {
  size_t width, stride, rows;
  double *block;
} triangle_block;

LANES_INLINE double triangle_total(const lanes *x) {
  return ((*x)[0] + (*x)[1]) + ((*x)[2] + (*x)[3]);
}

/* Applies the reflection of the vector (1, v) to four columns from `first`: to `row` of R, and to the block. */
LANES_INLINE void triangle_reflect_four(double *row, const double *v, double tau, double *first,
                                        size_t stride, size_t rows) {
  double *a = first, *b = a + stride, *c = b + stride, *d = c + stride;
  lanes s = {0}, t = s, u = s, w = s, x;
  for (size_t i = 0; i < rows; i += LANES) {
    x = LANES_AT(v + i);
    s += x * LANES_AT(a + i), t += x * LANES_AT(b + i);
    u += x * LANES_AT(c + i), w += x * LANES_AT(d + i);
  }
  double sums[4] = {triangle_total(&s), triangle_total(&t), triangle_total(&u), triangle_total(&w)};
  for (int k = 0; k < 4; k++) {
    sums[k] = tau * (sums[k] + row[k]);
    row[k] -= sums[k];
  }
  for (size_t i = 0; i < rows; i += LANES) {
    x = LANES_AT(v + i);
    s = LANES_AT(a + i) - sums[0] * x, t = LANES_AT(b + i) - sums[1] * x;
    u = LANES_AT(c + i) - sums[2] * x, w = LANES_AT(d + i) - sums[3] * x;
    LANES_PUT(a + i, s), LANES_PUT(b + i, t), LANES_PUT(c + i, u), LANES_PUT(d + i, w);
  }
}

/* The same for all columns from `first`. */
LANES_INLINE void triangle_reflect(triangle_block *b, double *row, const double *v, double tau,
                                   size_t first) {
  size_t k = first;
  for (; k + 4 <= b->width; k += 4)
    triangle_reflect_four(row + k, v, tau, b->block + k * b->stride, b->stride, b->rows);
  for (; k < b->width; k++) {
    double *column = b->block + k * b->stride, sum = row[k];
    for (size_t i = 0; i < b->rows; i++) sum += v[i] * column[i];
    row[k] -= tau * sum;
    for (size_t i = 0; i < b->rows; i++) column[i] -= tau * sum * v[i];
  }
}

/* The norm of a column, which neither overflows nor underflows where the norm does not. */
LANES_INLINE double triangle_norm(const double *column, size_t rows) {
  lanes sum = {0};
  for (size_t i = 0; i < rows; i += LANES) sum += LANES_AT(column + i) * LANES_AT(column + i);
  double squares = triangle_total(&sum), largest = 0;
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
LANES_CLONES static void triangle_add(triangle_block *b, double *r) {
  for (size_t j = 0; j < b->width; j++) {
    double *row = r + j * b->width, *v = b->block + j * b->stride, norm = triangle_norm(v, b->rows);
    if (norm == 0) continue;
    double alpha = row[j], beta = -copysign(hypot(alpha, norm), alpha);
    for (size_t i = 0; i < b->rows; i++) v[i] /= alpha - beta;
    row[j] = beta;
    triangle_reflect(b, row, v, (beta - alpha) / beta, j + 1);
  }
}

/* Fills the block behind `rows` rows up to a multiple of LANES. Rows of zeros do not change R. */
static void triangle_fill(triangle_block *b, size_t rows) {
  b->rows = (rows + LANES - 1) / LANES * LANES;
  for (size_t k = 0; k < b->width; k++)
    for (size_t i = rows; i < b->rows; i++) b->block[k * b->stride + i] = 0;
}

/* Takes the rows of R, by rows, into the block. */
static void triangle_take(triangle_block *b, const double *r, size_t from) {
  size_t left = b->width - from, rows = b->stride < left ? b->stride : left;
  for (size_t k = 0; k < b->width; k++) {
    for (size_t i = 0; i < rows; i++) b->block[k * b->stride + i] = r[(from + i) * b->width + k];
  }
  triangle_fill(b, rows);
}

/* Adds the triangle of a panel to R. */
static void triangle_merge(triangle_block *b, double *r, double *panel) {
  for (size_t from = 0; from < b->width; from += b->stride) {
    triangle_take(b, panel, from);
    triangle_add(b, r);
  }
  memset(panel, 0, b->width * b->width * sizeof *panel);
}

/* Takes rows of a column, subtracts `shift`, and multiplies them. A row of weight 0 may have any value. */
static void triangle_copy(double *to, const double *from, double shift, const double *weights,
                          size_t rows) {
  if (!weights)
    for (size_t i = 0; i < rows; i++) to[i] = from[i] - shift;
  else
    for (size_t i = 0; i < rows; i++) to[i] = weights[i] == 0 ? 0 : (from[i] - shift) * weights[i];
}

static size_t triangle_stride(size_t width) {
  size_t rows = BLOCK_BYTES / sizeof(double) / (width ? width : 1);
  return rows < BLOCK_LEAST ? BLOCK_LEAST : rows > BLOCK_MOST ? BLOCK_MOST : rows / LANES * LANES;
}

/* The source of a block. `weights` and `shift` may be NULL, and `y` is NULL without a column behind those of `x`. */
typedef struct {
  size_t count, columns;
  const double *x, *y, *weights, *shift;
} triangle_rows;

/* Takes the next block, from row `from`. */
static void triangle_read(triangle_block *b, const triangle_rows *rows, size_t from) {
  double *to = b->block;
  const double *weights = rows->weights ? rows->weights + from : NULL;
  size_t left = rows->count - from, count = b->stride < left ? b->stride : left;
  if (rows->shift) {
    for (size_t i = 0; i < count; i++) to[i] = weights ? weights[i] : 1;
    to += b->stride;
  }
  for (size_t k = 0; k < rows->columns; k++, to += b->stride)
    triangle_copy(to, rows->x + k * rows->count + from, rows->shift ? rows->shift[k] : 0, weights,
                  count);
  if (rows->y) triangle_copy(to, rows->y + from, 0, weights, count);
  triangle_fill(b, count);
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

static const double *triangle_numbers(SEXP values) {
  return Rf_isNull(values) ? NULL : REAL_RO(values);
}

SEXP triangle_of(SEXP x, SEXP y, SEXP weights, SEXP above, SEXP shift) {
  if (!Rf_isReal(x) || !Rf_isMatrix(x)) Rf_error("the rows are not a matrix of doubles");
  triangle_check(shift, Rf_ncols(x), "shift");
  size_t count = (size_t)Rf_nrows(x);
  size_t width = (size_t)Rf_ncols(x) + !Rf_isNull(y) + !Rf_isNull(shift);
  triangle_check(y, (R_xlen_t)count, "y");
  triangle_check(weights, (R_xlen_t)count, "weights");
  triangle_check(above, (R_xlen_t)(width * width), "above");
  triangle_rows rows = {count,
                        (size_t)Rf_ncols(x),
                        REAL_RO(x),
                        triangle_numbers(y),
                        triangle_numbers(weights),
                        triangle_numbers(shift)};
  triangle_block b = {.width = width, .stride = triangle_stride(width)};
  b.block = (double *)R_alloc(b.stride * width + 1, sizeof *b.block);
  double *r = triangle_zero(width), *panel = triangle_zero(width);
  if (!Rf_isNull(above)) triangle_turn(r, REAL_RO(above), width);
  for (size_t from = 0, blocks = 1; from < count; from += b.stride, blocks++) {
    triangle_read(&b, &rows, from);
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
