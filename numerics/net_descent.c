/* SPDX-License-Identifier: Apache-2.0 */
#include "net_descent.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "gram.h"
#include "lanes.h"

enum { DESCENT_SWEEPS = 2000, DESCENT_PARTS = 8 };

/* `linear` is the linear part of the function, and `slack` its rounding errors. `found` is the solution of the linear
 * equations. `root` is the diagonal of the root of Cholesky, which is below the diagonal of `gram`, and `used` are the
 * columns of these equations. `signs` are those of `b` before the last sweep. */
typedef struct {
  size_t width;
  double *gram, *b, *residual, *linear, *diagonal, *start, *found, *root, *signs, slack;
  const double *first, *second;
  size_t *used;
} descent;

size_t num_net_minimize_scratch(size_t width) {
  return DESCENT_PARTS * width;
}

static double descent_sign(double x) {
  return (double)((x > 0) - (x < 0));
}

/* to -= factor * from */
LANES_CLONES static void descent_subtract(double *to, const double *from, double factor,
                                          size_t count) {
  size_t k = 0;
  for (; k + LANES <= count; k += LANES)
    LANES_PUT(to + k, LANES_AT(to + k) - LANES_AT(from + k) * factor);
  for (; k < count; k++) to[k] -= from[k] * factor;
}

LANES_CLONES static double descent_dot(const double *x, const double *y, size_t count) {
  lanes sum = {0};
  size_t k = 0;
  for (; k + LANES <= count; k += LANES) sum += LANES_AT(x + k) * LANES_AT(y + k);
  double total = (sum[0] + sum[2]) + (sum[1] + sum[3]);
  for (; k < count; k++) total += x[k] * y[k];
  return total;
}

/* ---- Linear equations ------------------------------------------------------------------------------------------- */

/* The row of the root for an equation is in the row of its column in `gram`, which is long enough. */
static double *descent_row(const descent *d, size_t equation) {
  return d->gram + d->used[equation] * d->width;
}

/* Finds the root. Returns false unless the matrix is positive definite. */
static bool descent_factor(const descent *d, size_t count) {
  for (size_t i = 0; i < count; i++) {
    size_t column = d->used[i];
    double *row = descent_row(d, i);
    for (size_t j = 0; j < i; j++) {
      double *other = descent_row(d, j), whole = other[column];
      row[j] = (whole - descent_dot(row, other, j)) / d->root[j];
    }
    double rest = d->diagonal[column] + d->second[column] - descent_dot(row, row, i);
    if (!(rest > 0)) return false;
    d->root[i] = sqrt(rest);
  }
  return true;
}

/* Solves the equations of the factored matrix: `x` has the right side, and gets the solution. */
static void descent_solve(const descent *d, size_t count, double *x) {
  for (size_t i = 0; i < count; i++)
    x[i] = (x[i] - descent_dot(descent_row(d, i), x, i)) / d->root[i];
  for (size_t i = count; i-- > 0;) {
    x[i] /= d->root[i];
    descent_subtract(x, descent_row(d, i), x[i], i);
  }
}

/* The sign of a coefficient, by which its penalty is linear; 0 without a penalty of the absolute value. */
static double descent_branch(const descent *d, size_t k, double b) {
  return d->first[k] > 0 ? descent_sign(b) : 0;
}

/* The minimum if its signs are those of `b`, in `found`. */
static bool descent_solved(const descent *d) {
  size_t count = 0;
  double *x = d->start;
  for (size_t k = 0; k < d->width; k++)
    if (d->b[k] != 0 || d->first[k] == 0) d->used[count++] = k;
  for (size_t i = 0; i < count; i++) {
    size_t k = d->used[i];
    x[i] = d->linear[k] - d->first[k] * descent_branch(d, k, d->b[k]);
  }
  bool solved = descent_factor(d, count);
  if (solved) descent_solve(d, count, x);
  num_gram_mirror(d->gram, d->width);
  memset(d->found, 0, d->width * sizeof *d->found);
  for (size_t i = 0; i < count; i++) d->found[d->used[i]] = x[i];
  for (size_t i = 0; i < count && solved; i++) {
    size_t k = d->used[i];
    solved = descent_branch(d, k, x[i]) == descent_branch(d, k, d->b[k]);
  }
  return solved;
}

/* Whether the other coefficients stay 0 at the minimum of `found`. */
static bool descent_holds(const descent *d) {
  double *rest = d->start;
  memcpy(rest, d->linear, d->width * sizeof *rest);
  for (size_t k = 0; k < d->width; k++)
    if (d->found[k] != 0) descent_subtract(rest, d->gram + k * d->width, d->found[k], d->width);
  for (size_t k = 0; k < d->width; k++)
    if (d->b[k] == 0 && d->first[k] > 0 && !(fabs(rest[k]) - d->first[k] <= d->slack)) return false;
  return true;
}

/* ---- Coordinate descent ----------------------------------------------------------------------------------------- */

/* Moves each coefficient to its minimum. Returns the longest move. */
static double descent_sweep(const descent *d) {
  double most = 0;
  for (size_t j = 0; j < d->width; j++) {
    double curvature = d->diagonal[j] + d->second[j];
    if (!(curvature > 0)) continue;
    double z = d->residual[j] + d->diagonal[j] * d->b[j], over = fabs(z) - d->first[j];
    double new = over > 0 ? descent_sign(z) * over / curvature : 0, move = new - d->b[j];
    if (move == 0) continue;
    descent_subtract(d->residual, d->gram + j * d->width, move, d->width);
    d->b[j] = new;
    most = fmax(most, fabs(move) * sqrt(curvature));
  }
  return most;
}

/* Stores the signs of `b`. Returns whether they were these. */
static bool descent_stays(const descent *d, double *signs) {
  bool same = true;
  for (size_t k = 0; k < d->width; k++) {
    double sign = descent_branch(d, k, d->b[k]);
    same = same && sign == signs[k];
    signs[k] = sign;
  }
  return same;
}

/* Without penalties of absolute values no sweep is needed. */
static void descent_run(const descent *d) {
  bool punished = false;
  for (size_t k = 0; k < d->width; k++) {
    punished = punished || d->first[k] > 0;
    d->signs[k] = NAN;
  }
  double most = INFINITY;
  for (size_t sweep = 0; sweep < DESCENT_SWEEPS && most >= 1e-15; sweep++) {
    if (punished || sweep > 0) most = descent_sweep(d);
    if (punished && !descent_stays(d, d->signs)) continue;
    if (!descent_solved(d) || !descent_holds(d)) continue;
    memcpy(d->b, d->found, d->width * sizeof *d->b);
    return;
  }
}

void num_net_minimize(size_t width, double *gram, const double *gradient, const double *first,
                      const double *second, double *b, double *scratch) {
  descent d = {.width = width, .gram = gram, .b = b, .first = first, .second = second};
  d.residual = scratch, d.linear = scratch + width, d.diagonal = scratch + 2 * width;
  d.start = scratch + 3 * width, d.found = scratch + 4 * width, d.root = scratch + 5 * width;
  d.signs = scratch + 6 * width, d.used = (size_t *)(void *)(scratch + 7 * width);
  double mean = 0;
  for (size_t k = 0; k < width; k++) mean += gram[k * width + k];
  mean = width > 0 ? mean / (double)width : 0;
  for (size_t k = 0; k < width; k++) gram[k * width + k] += 1e-9 * mean;
  for (size_t k = 0; k < width; k++) d.diagonal[k] = gram[k * width + k];
  memcpy(d.residual, gradient, width * sizeof *gradient);
  memcpy(d.linear, gradient, width * sizeof *gradient);
  double largest = 0;
  for (size_t k = 0; k < width; k++)
    if (b[k] != 0) descent_subtract(d.linear, gram + k * width, -b[k], width);
  for (size_t k = 0; k < width; k++) largest = fmax(largest, fabs(d.linear[k]));
  d.slack = 1e-13 * fmax(largest, 1e-300);
  descent_run(&d);
}
