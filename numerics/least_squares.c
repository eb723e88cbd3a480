/* SPDX-License-Identifier: Apache-2.0 */
#include "least_squares.h"

#include <math.h>
#include <string.h>

/* `x` has `width` columns, the response as the last one, by rows. */
typedef struct {
  size_t rows, width;
  double *x, *reflector, *sums;
} squares_work;

size_t num_least_squares_scratch(size_t rows, size_t columns) {
  return rows * (columns + 1) + rows + 2 * (columns + 1);
}

/* The norm of a column from row `from` on, which does not overflow where the norm does not. */
static double squares_norm(const squares_work *w, size_t from, size_t column) {
  double largest = 0, sum = 0;
  for (size_t i = from; i < w->rows; i++) {
    double size = fabs(w->x[i * w->width + column]);
    if (!(size <= largest)) largest = size;
  }
  if (largest == 0 || !isfinite(largest)) return largest;
  for (size_t i = from; i < w->rows; i++) {
    double part = w->x[i * w->width + column] / largest;
    sum += part * part;
  }
  return largest * sqrt(sum);
}

/* Reflects the rows from `row` on, so that the column is 0 below it, where its norm is `below` now. */
static void squares_reflect(squares_work *w, size_t row, size_t column, double below) {
  double *top = w->x + row * w->width, alpha = top[column];
  if (below == 0) return;
  double beta = -copysign(hypot(alpha, below), alpha), tau = (beta - alpha) / beta;
  memcpy(w->sums, top, w->width * sizeof *top);
  for (size_t i = row + 1; i < w->rows; i++) {
    const double *from = w->x + i * w->width;
    double v = w->reflector[i] = from[column] / (alpha - beta);
    if (v == 0) continue;
    for (size_t k = column + 1; k < w->width; k++) w->sums[k] += v * from[k];
  }
  for (size_t k = column + 1; k < w->width; k++) {
    w->sums[k] *= tau;
    top[k] -= w->sums[k];
  }
  for (size_t i = row + 1; i < w->rows; i++) {
    double *to = w->x + i * w->width, v = w->reflector[i];
    if (v == 0) continue;
    for (size_t k = column + 1; k < w->width; k++) to[k] -= w->sums[k] * v;
  }
  top[column] = beta;
}

/* Decomposes the columns one by one, and puts each into the order. */
static void squares_decompose(squares_work *w, const double *lengths, double tolerance,
                              num_solution *s) {
  size_t columns = w->width - 1, others = 0;
  s->rank = 0;
  for (size_t k = 0; k < columns; k++) {
    double below = squares_norm(w, s->rank + 1, k), norm = 0;
    if (s->rank < w->rows) norm = hypot(w->x[s->rank * w->width + k], below);
    if (norm <= tolerance * lengths[k]) {
      s->order[columns - ++others] = (int32_t)k;
      continue;
    }
    s->order[s->rank] = (int32_t)k;
    squares_reflect(w, s->rank++, k, below);
  }
  for (size_t i = s->rank, j = columns; i + 1 < j; i++) { /* the others came from the end */
    int32_t other = s->order[--j];
    s->order[j] = s->order[i], s->order[i] = other;
  }
}

/* Solves for the coefficients, from the last one to the first. */
static void squares_substitute(const num_solution *s, size_t columns) {
  for (size_t k = 0; k < columns; k++) s->coefficients[k] = NAN;
  for (size_t i = s->rank; i-- > 0;) {
    const double *row = s->root + i * columns;
    double sum = s->effects[i];
    for (size_t k = i + 1; k < s->rank; k++) sum -= row[k] * s->coefficients[s->order[k]];
    s->coefficients[s->order[i]] = sum / row[i];
  }
}

/* The inverse of the products, from the inverse of the root, which replaces `inverse`. */
static void squares_invert(const num_solution *s, size_t columns, double *inverse) {
  for (size_t i = s->rank; i-- > 0;) {
    const double *row = s->root + i * columns;
    double *to = inverse + i * columns;
    memset(to, 0, columns * sizeof *to);
    to[i] = 1;
    for (size_t l = i + 1; l < s->rank; l++)
      for (size_t k = l; k < s->rank; k++) to[k] -= row[l] * inverse[l * columns + k];
    for (size_t k = i; k < s->rank; k++) to[k] /= row[i];
  }
  for (size_t i = 0; i < s->rank; i++)
    for (size_t j = i; j < s->rank; j++) {
      double sum = 0;
      for (size_t k = j; k < s->rank; k++)
        sum += inverse[i * columns + k] * inverse[j * columns + k];
      s->unscaled[i * columns + j] = s->unscaled[j * columns + i] = sum;
    }
}

void num_least_squares(const double *x, size_t rows, size_t columns, double tolerance,
                       num_solution *solution, double *scratch) {
  squares_work w = {.rows = rows, .width = columns + 1, .x = scratch};
  w.reflector = w.x + rows * w.width;
  w.sums = w.reflector + rows;
  double *lengths = w.sums + w.width;
  memcpy(w.x, x, rows * w.width * sizeof *x);
  for (size_t k = 0; k < columns; k++) lengths[k] = squares_norm(&w, 0, k);
  squares_decompose(&w, lengths, tolerance, solution);
  for (size_t i = 0; i < solution->rank; i++) {
    solution->effects[i] = w.x[i * w.width + columns];
    for (size_t k = 0; k < solution->rank; k++)
      solution->root[i * columns + k] = k < i ? 0 : w.x[i * w.width + (size_t)solution->order[k]];
  }
  solution->rest = 0;
  for (size_t i = solution->rank; i < rows; i++) {
    double part = w.x[i * w.width + columns];
    solution->rest += part * part;
  }
  squares_substitute(solution, columns);
  squares_invert(solution, columns, w.x); /* rows >= rank, so the inverse fits */
}
