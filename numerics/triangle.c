/* SPDX-License-Identifier: Apache-2.0 */
#include "triangle.h"

#include <math.h>
#include <string.h>

#include "lanes.h"

enum {
  BLOCK_BYTES = 1 << 18,
  BLOCK_LEAST = 32, /* rows */
  BLOCK_MOST = 512,
  PANEL_BLOCKS = 64,
  TRIANGLE_TILE = 32 /* rows that are picked at once */
};

/* The parts of a state. A column of the block has `stride` numbers, a multiple of LANES, of which `filled` are rows
 * that wait, as they came, with their roots. */
typedef struct {
  size_t width, stride;
  double *r, *shift, *rows; /* the message */
  double *centered, *filled, *blocks, *panel, *roots, *block;
} triangle;

static size_t triangle_stride(size_t width) {
  size_t rows = BLOCK_BYTES / sizeof(double) / (width ? width : 1);
  return rows < BLOCK_LEAST ? BLOCK_LEAST : rows > BLOCK_MOST ? BLOCK_MOST : rows / LANES * LANES;
}

size_t num_triangle_message(size_t width) {
  return width * width + width + 1;
}

size_t num_triangle_size(size_t width) {
  return num_triangle_message(width) + 3 + width * width + triangle_stride(width) * (width + 1);
}

static triangle triangle_of(double *state, size_t width) {
  triangle t = {.width = width, .stride = triangle_stride(width), .r = state};
  t.shift = t.r + width * width;
  t.rows = t.shift + width;
  t.centered = t.rows + 1;
  t.filled = t.centered + 1;
  t.blocks = t.filled + 1;
  t.panel = t.blocks + 1;
  t.roots = t.panel + width * width;
  t.block = t.roots + t.stride;
  return t;
}

void num_triangle_open(double *state, size_t width, bool centered) {
  triangle t = triangle_of(state, width);
  memset(state, 0, (size_t)(t.roots - state) * sizeof *state);
  *t.centered = centered;
}

/* ---- Reflections ------------------------------------------------------------------------------------------------ */

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
LANES_INLINE void triangle_reflect(const triangle *t, size_t rows, double *row, const double *v,
                                   double tau, size_t first) {
  size_t k = first;
  for (; k + 4 <= t->width; k += 4)
    triangle_reflect_four(row + k, v, tau, t->block + k * t->stride, t->stride, rows);
  for (; k < t->width; k++) {
    double *column = t->block + k * t->stride, sum = row[k];
    for (size_t i = 0; i < rows; i++) sum += v[i] * column[i];
    row[k] -= tau * sum;
    for (size_t i = 0; i < rows; i++) column[i] -= tau * sum * v[i];
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

/* Decomposes R with `rows` rows of the block under it, a multiple of LANES. */
LANES_CLONES static void triangle_reduce(const triangle *t, size_t rows, double *r) {
  for (size_t j = 0; j < t->width; j++) {
    double *row = r + j * t->width, *v = t->block + j * t->stride, norm = triangle_norm(v, rows);
    if (norm == 0) continue;
    double alpha = row[j], beta = -copysign(hypot(alpha, norm), alpha);
    for (size_t i = 0; i < rows; i++) v[i] /= alpha - beta;
    row[j] = beta;
    triangle_reflect(t, rows, row, v, (beta - alpha) / beta, j + 1);
  }
}

/* Adds rows of zeros, which do not change R, up to a multiple of LANES. Returns that multiple. */
static size_t triangle_fill(const triangle *t, size_t rows) {
  size_t all = (rows + LANES - 1) / LANES * LANES;
  for (size_t k = 0; k < t->width; k++)
    for (size_t i = rows; i < all; i++) t->block[k * t->stride + i] = 0;
  return all;
}

/* Adds the panel to R. The block has no rows. */
static void triangle_join(triangle *t) {
  for (size_t from = 0; from < t->width; from += t->stride) {
    size_t left = t->width - from, rows = t->stride < left ? t->stride : left;
    for (size_t k = 0; k < t->width; k++)
      for (size_t i = 0; i < rows; i++)
        t->block[k * t->stride + i] = t->panel[(from + i) * t->width + k];
    triangle_reduce(t, triangle_fill(t, rows), t->r);
  }
  memset(t->panel, 0, t->width * t->width * sizeof *t->panel);
}

/* ---- Rows ------------------------------------------------------------------------------------------------------- */

/* The means of the block's rows, which are the shift from now on. */
static void triangle_center(triangle *t) {
  size_t rows = (size_t)*t->filled;
  for (size_t k = 1; k < t->width; k++) {
    const double *column = t->block + k * t->stride;
    double mean = 0;
    for (size_t i = 0; i < rows; i++) mean += column[i] / (double)rows;
    t->shift[k] = mean;
  }
}

/* Adds the rows of the block to the panel. */
static void triangle_flush(triangle *t) {
  size_t rows = (size_t)*t->filled;
  if (rows == 0) return;
  if (*t->centered != 0 && *t->rows == 0) triangle_center(t);
  for (size_t k = 0; k < t->width; k++) {
    double *column = t->block + k * t->stride, shift = t->shift[k];
    for (size_t i = 0; i < rows; i++) column[i] = (column[i] - shift) * t->roots[i];
  }
  triangle_reduce(t, triangle_fill(t, rows), t->panel);
  *t->rows += *t->filled;
  *t->filled = 0;
  *t->blocks += 1;
  if (fmod(*t->blocks, PANEL_BLOCKS) == 0) triangle_join(t);
}

/* Appends these rows to the block. */
static void triangle_take(triangle *t, const num_triangle_rows *rows, const size_t *these,
                          size_t count) {
  size_t filled = (size_t)*t->filled;
  double *to = t->block + filled;
  for (size_t i = 0; i < count; i++) t->roots[filled + i] = rows->roots ? rows->roots[these[i]] : 1;
  if (rows->ones) {
    for (size_t i = 0; i < count; i++) to[i] = 1;
    to += t->stride;
  }
  for (size_t k = 0; k < rows->columns; k++, to += t->stride) {
    const double *from = rows->x + k * rows->column_step;
    for (size_t i = 0; i < count; i++) to[i] = from[these[i] * rows->row_step];
  }
  if (rows->last)
    for (size_t i = 0; i < count; i++) to[i] = rows->last[these[i]];
  *t->filled = (double)(filled + count);
}

/* The next rows with a root, from row `*from` on, `most` at most. */
static size_t triangle_pick(const num_triangle_rows *rows, size_t *from, size_t *these,
                            size_t most) {
  size_t found = 0;
  for (; *from < rows->count && found < most; (*from)++)
    if (!rows->roots || rows->roots[*from] != 0) these[found++] = *from;
  return found;
}

void num_triangle_add(double *state, const num_triangle_rows *rows) {
  triangle t = triangle_of(state, rows->ones + rows->columns + (rows->last != NULL));
  size_t these[TRIANGLE_TILE], from = 0;
  while (from < rows->count) {
    size_t room = t.stride - (size_t)*t.filled;
    size_t count = triangle_pick(rows, &from, these, room < TRIANGLE_TILE ? room : TRIANGLE_TILE);
    triangle_take(&t, rows, these, count);
    if ((size_t)*t.filled == t.stride) triangle_flush(&t);
  }
}

/* ---- Triangles -------------------------------------------------------------------------------------------------- */

void num_triangle_close(double *state, size_t width) {
  triangle t = triangle_of(state, width);
  triangle_flush(&t);
  triangle_join(&t);
}

void num_triangle_merge(double *state, const double *other, size_t width) {
  triangle t = triangle_of(state, width);
  const double *shift = other + width * width;
  if (shift[width] == 0) return;
  if (*t.rows == 0) {
    memcpy(state, other, num_triangle_message(width) * sizeof *state);
    return;
  }
  memcpy(t.panel, other, width * width * sizeof *t.panel);
  for (size_t k = 1; k < width; k++) t.panel[k] += (shift[k] - t.shift[k]) * t.panel[0];
  triangle_join(&t);
  *t.rows += shift[width];
}

void num_triangle_finish(double *message, size_t width) {
  double *shift = message + width * width;
  for (size_t i = 0; i < width; i++) {
    double *row = message + i * width;
    if (row[i] < 0)
      for (size_t k = i; k < width; k++) row[k] = -row[k];
  }
  for (size_t k = 1; k < width; k++) {
    message[k] += shift[k] * message[0];
    shift[k] = 0;
  }
}
