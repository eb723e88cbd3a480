/* SPDX-License-Identifier: Apache-2.0 */
#include "positive.h"

#include <float.h>
#include <math.h>
#include <string.h>

size_t num_positive_scratch(size_t width) {
  return 3 * width * width + 3 * width;
}

void num_positive_kept(const double *matrix, size_t width, double least, double tolerance,
                       int32_t *kept, double *scratch) {
  memcpy(scratch, matrix, width * width * sizeof *scratch);
  for (size_t k = 0; k < width; k++) least = fmax(least, tolerance * matrix[k * width + k]);
  for (size_t k = 0; k < width; k++) {
    const double *row = scratch + k * width;
    if (!isfinite(row[k]) || row[k] <= least) {
      kept[k] = 0;
      continue;
    }
    for (size_t i = k + 1; i < width; i++)
      for (size_t j = i; j < width; j++) scratch[i * width + j] -= row[i] * row[j] / row[k];
  }
}

/* The lower triangle L of the Cholesky decomposition, of which each row has a column of the scaled matrix that is kept.
 * `scales` are the roots of the diagonal. */
static void positive_decompose(const double *matrix, size_t width, const int32_t *kept,
                               double *lower, double *scales) {
  for (size_t i = 0; i < width; i++) {
    scales[i] = sqrt(matrix[i * width + i]);
    for (size_t j = 0; j <= i && kept[i]; j++) {
      double *to = lower + i * width + j;
      if (!kept[j]) continue;
      *to = matrix[i * width + j] / (scales[i] * scales[j]);
      for (size_t k = 0; k < j; k++)
        if (kept[k]) *to -= lower[i * width + k] * lower[j * width + k];
      *to = i == j ? sqrt(*to) : *to / lower[j * width + j];
    }
  }
}

/* Solves L y = e and L' x = y, where e is a column of the identity. */
static void positive_solve(const double *lower, size_t width, const int32_t *kept, size_t column,
                           double *x) {
  for (size_t i = 0; i < width; i++) {
    x[i] = i == column;
    for (size_t k = column; k < i && kept[i]; k++)
      if (kept[k]) x[i] -= lower[i * width + k] * x[k];
    if (kept[i]) x[i] /= lower[i * width + i];
  }
  for (size_t i = width; i-- > 0;) {
    for (size_t k = i + 1; k < width && kept[i]; k++)
      if (kept[k]) x[i] -= lower[k * width + i] * x[k];
    if (kept[i]) x[i] /= lower[i * width + i];
  }
}

void num_positive_invert(const double *matrix, size_t width, const int32_t *kept, double *inverse,
                         double *scratch) {
  double *lower = scratch, *scales = lower + width * width, *x = scales + width;
  positive_decompose(matrix, width, kept, lower, scales);
  memset(inverse, 0, width * width * sizeof *inverse);
  for (size_t j = 0; j < width; j++) {
    if (!kept[j]) continue;
    positive_solve(lower, width, kept, j, x);
    for (size_t i = 0; i <= j; i++)
      if (kept[i]) inverse[i * width + j] = inverse[j * width + i] = x[i] / (scales[i] * scales[j]);
  }
}

double num_positive_multiply(const double *matrix, size_t width, const double *vector,
                             double *product) {
  double total = 0;
  for (size_t i = 0; i < width; i++) {
    product[i] = 0;
    for (size_t k = 0; k < width; k++) product[i] += matrix[i * width + k] * vector[k];
    total += vector[i] * product[i];
  }
  return total;
}

double num_positive_wald(const double *covariance, size_t width, const double *values,
                         double tolerance, int32_t *kept, double *scratch) {
  double *scaled = scratch, *inverse = scaled + width * width, *rest = inverse + width * width;
  double *errors = rest + width * width + 2 * width;
  for (size_t k = 0; k < width; k++)
    errors[k] = sqrt(fmax(covariance[k * width + k], DBL_MIN)), kept[k] = 1;
  for (size_t i = 0; i < width; i++)
    for (size_t k = 0; k < width; k++)
      scaled[i * width + k] = covariance[i * width + k] / (errors[i] * errors[k]);
  num_positive_kept(scaled, width, 0, tolerance, kept, rest);
  num_positive_invert(scaled, width, kept, inverse, rest);
  for (size_t k = 0; k < width; k++) scaled[k] = values[k] / errors[k];
  return num_positive_multiply(inverse, width, scaled, rest);
}
