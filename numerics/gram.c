/* SPDX-License-Identifier: Apache-2.0 */
#include "gram.h"

#include "lanes.h"

enum { GRAM_TOGETHER = 4 }; /* sums that do not wait for each other */

#define GRAM_TOTAL(x) (((x)[0] + (x)[2]) + ((x)[1] + (x)[3]))

LANES_INLINE double gram_dot(const double *left, const double *right) {
  lanes sum = {0};
  for (size_t i = 0; i < NUM_TILE; i += LANES) sum += LANES_AT(left + i) * LANES_AT(right + i);
  return GRAM_TOTAL(sum);
}

LANES_INLINE void gram_dots(double *sums, const double *left, const double *const *right,
                            size_t count) {
  size_t k = 0;
  for (; k + GRAM_TOGETHER <= count; k += GRAM_TOGETHER) {
    const double *const *at = right + k;
    lanes a = {0}, b = {0}, c = {0}, d = {0};
    for (size_t i = 0; i < NUM_TILE; i += LANES) {
      lanes x = LANES_AT(left + i);
      a += x * LANES_AT(at[0] + i), b += x * LANES_AT(at[1] + i);
      c += x * LANES_AT(at[2] + i), d += x * LANES_AT(at[3] + i);
    }
    sums[k] += GRAM_TOTAL(a), sums[k + 1] += GRAM_TOTAL(b);
    sums[k + 2] += GRAM_TOTAL(c), sums[k + 3] += GRAM_TOTAL(d);
  }
  for (; k < count; k++) sums[k] += gram_dot(left, right[k]);
}

LANES_CLONES static void gram_row(double *sums, const double *left, const double *const *right,
                                  size_t count, const double *weights) {
  double weighted[NUM_TILE];
  if (weights)
    for (size_t i = 0; i < NUM_TILE; i += LANES)
      LANES_PUT(weighted + i, LANES_AT(weights + i) * LANES_AT(left + i));
  gram_dots(sums, weights ? weighted : left, right, count);
}

void num_gram_dots(double *sums, const double *left, const double *const *right, size_t count) {
  gram_row(sums, left, right, count, NULL);
}

void num_gram_add(double *sums, size_t stride, const double *const *left, size_t lefts,
                  const double *const *right, size_t rights, const double *weights) {
  for (size_t j = 0; j < lefts; j++) {
    size_t first = left == right ? j : 0;
    gram_row(sums + j * stride + first, left[j], right + first, rights - first, weights);
  }
}

void num_gram_mirror(double *sums, size_t width) {
  for (size_t j = 0; j < width; j++)
    for (size_t k = 0; k < j; k++) sums[j * width + k] = sums[k * width + j];
}
