/* SPDX-License-Identifier: Apache-2.0 */
#include "svd.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "lanes.h"

enum { SVD_SWEEPS = 60 };

static const double svd_least = 1e-150; /* of the longest row: what is shorter is 0 */

/* A row has `stride` numbers, a multiple of LANES, of which the last ones are 0. `squares` are those of the lengths of
 * the rows. */
typedef struct {
  size_t width, stride;
  double *rows, *squares;
} svd_work;

static size_t svd_stride(size_t width) {
  return (width + LANES - 1) / LANES * LANES;
}

size_t num_svd_scratch(size_t width) {
  return width * svd_stride(width) + width + svd_stride(width);
}

static double *svd_row(const svd_work *w, size_t i) {
  return w->rows + i * w->stride;
}

LANES_CLONES static double svd_dot(const double *x, const double *y, size_t stride) {
  lanes sum = {0};
  for (size_t k = 0; k < stride; k += LANES) sum += LANES_AT(x + k) * LANES_AT(y + k);
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

/* Rotates by an angle, with the sine and the tangent of its half: the small changes of the rows are added to them, which
 * rounds less than products with the cosine. */
LANES_CLONES static void svd_rotate(double *x, double *y, double sine, double half, size_t stride) {
  for (size_t k = 0; k < stride; k += LANES) {
    lanes a = LANES_AT(x + k), b = LANES_AT(y + k);
    LANES_PUT(x + k, a - sine * (b + half * a));
    LANES_PUT(y + k, b + sine * (a - half * b));
  }
}

static void svd_exchange(double *x, double *y) {
  double kept = *x;
  *x = *y, *y = kept;
}

static void svd_swap(svd_work *w, size_t i, size_t j) {
  if (i == j) return;
  for (size_t k = 0; k < w->width; k++) svd_exchange(svd_row(w, i) + k, svd_row(w, j) + k);
  svd_exchange(w->squares + i, w->squares + j);
}

/* Brings the longest of the rows from `first` on to the front. */
static void svd_bring(svd_work *w, size_t first) {
  size_t longest = first;
  for (size_t i = first + 1; i < w->width; i++)
    if (w->squares[i] > w->squares[longest]) longest = i;
  svd_swap(w, first, longest);
}

/* Makes two rows orthogonal. Returns whether they were so already. */
static bool svd_pair(svd_work *w, size_t i, size_t j) {
  double *x = svd_row(w, i), *y = svd_row(w, j);
  double a = w->squares[i], b = w->squares[j], c = svd_dot(x, y, w->stride);
  if (!(fabs(c) > DBL_EPSILON * sqrt(a) * sqrt(b))) return true;
  double zeta = (b - a) / (2 * c);
  double tangent = copysign(1, zeta) / (fabs(zeta) + hypot(1, zeta));
  double cosine = 1 / sqrt(1 + tangent * tangent), sine = cosine * tangent;
  svd_rotate(x, y, sine, sine / (1 + cosine), w->stride);
  w->squares[i] = svd_dot(x, x, w->stride);
  w->squares[j] = svd_dot(y, y, w->stride);
  return false;
}

static void svd_measure(svd_work *w) {
  double most = 0;
  for (size_t i = 0; i < w->width; i++) {
    w->squares[i] = svd_dot(svd_row(w, i), svd_row(w, i), w->stride);
    most = fmax(most, w->squares[i]);
  }
  for (size_t i = 0; i < w->width; i++)
    if (w->squares[i] <= most * svd_least * svd_least) {
      memset(svd_row(w, i), 0, w->stride * sizeof(double));
      w->squares[i] = 0;
    }
}

static void svd_sweep(svd_work *w) {
  bool orthogonal = false;
  for (int sweep = 0; sweep < SVD_SWEEPS && !orthogonal; sweep++) {
    orthogonal = true;
    svd_measure(w);
    for (size_t i = 0; i < w->width; i++) {
      svd_bring(w, i);
      for (size_t j = i + 1; j < w->width; j++) orthogonal = svd_pair(w, i, j) && orthogonal;
    }
  }
}

/* Makes the row of a singular value of 0 orthogonal to the rows before it, which have the length 1: of the axes that
 * one of which most is left, twice, as the first time leaves rounding errors. */
static void svd_complete(svd_work *w, size_t i, double *best) {
  double *row = svd_row(w, i), longest = 0;
  for (size_t axis = 0; axis < w->width; axis++) {
    double left = 1;
    for (size_t j = 0; j < i; j++) left -= svd_row(w, j)[axis] * svd_row(w, j)[axis];
    if (left <= longest) continue;
    longest = left;
    memset(row, 0, w->stride * sizeof *row);
    row[axis] = 1;
  }
  for (int again = 0; again < 2; again++)
    for (size_t j = 0; j < i; j++) {
      const double *other = svd_row(w, j);
      double part = svd_dot(row, other, w->stride);
      for (size_t k = 0; k < w->width; k++) row[k] -= part * other[k];
    }
  memcpy(best, row, w->stride * sizeof *row);
}

/* Divides a row by its length, with the sign by which its largest element is positive. */
static void svd_normalize(svd_work *w, size_t i, double *to) {
  const double *row = svd_row(w, i);
  double length = sqrt(svd_dot(row, row, w->stride)), most = 0;
  for (size_t k = 0; k < w->width; k++)
    if (fabs(row[k]) > fabs(most)) most = row[k];
  for (size_t k = 0; k < w->width; k++) to[k] = row[k] / (most < 0 ? -length : length);
}

void num_svd(double *matrix, size_t width, double *singular, double *scratch) {
  svd_work w = {.width = width, .stride = svd_stride(width), .rows = scratch};
  w.squares = w.rows + width * w.stride;
  double *row = w.squares + width, most = 0;
  int exponent = 0;
  for (size_t i = 0; i < width * width; i++) most = fmax(most, fabs(matrix[i]));
  frexp(most, &exponent);
  memset(w.rows, 0, width * w.stride * sizeof *w.rows);
  for (size_t i = 0; i < width; i++)
    for (size_t k = 0; k < width; k++) svd_row(&w, i)[k] = ldexp(matrix[i * width + k], -exponent);
  svd_sweep(&w);
  for (size_t i = 0; i < width; i++) svd_bring(&w, i);
  for (size_t i = 0; i < width; i++) {
    singular[i] = ldexp(sqrt(w.squares[i]), exponent);
    if (w.squares[i] == 0) svd_complete(&w, i, row);
    svd_normalize(&w, i, matrix + i * width);
    memcpy(svd_row(&w, i), matrix + i * width, width * sizeof *matrix);
  }
}
