/* SPDX-License-Identifier: Apache-2.0 */
#include "gram.h"

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
