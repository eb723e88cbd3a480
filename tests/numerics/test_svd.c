/* SPDX-License-Identifier: Apache-2.0
 *
 * Singular vectors are orthonormal, and the matrix times each has the length of its singular value: for triangles of
 * several sizes, among them some with columns that depend on others, and with columns of very different lengths.
 */
#include "svd.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "random.h"

enum { WIDTH_MOST = 40 };

enum { PLAIN, GRADED, DEPENDENT, LARGE, KINDS };

static double matrix[WIDTH_MOST * WIDTH_MOST], found[WIDTH_MOST * WIDTH_MOST];
static double singular[WIDTH_MOST];

static void draw(size_t width, int kind) {
  const num_random random = {.seed = width, .stream = (uint64_t)kind};
  for (size_t i = 0; i < width; i++)
    for (size_t k = 0; k < width; k++) {
      double number = k < i ? 0 : num_random_uniform(&random, i * width + k) - 0.5;
      if (kind == GRADED) number *= pow(10, -0.5 * (double)k);
      if (kind == DEPENDENT && k % 3 == 1) number = matrix[i * width + k - 1];
      matrix[i * width + k] = kind == LARGE ? number * 1e300 : number;
    }
}

static double dot(const double *x, const double *y, size_t width) {
  double sum = 0;
  for (size_t k = 0; k < width; k++) sum += x[k] * y[k];
  return sum;
}

static void check_vectors(size_t width) {
  double scale = singular[0] > 0 ? singular[0] : 1;
  for (size_t i = 0; i < width; i++) {
    double length = 0, most = 0, least = 0;
    for (size_t j = 0; j <= i; j++)
      CHECK(fabs(dot(found + i * width, found + j * width, width) - (i == j)) < 1e-14);
    for (size_t row = 0; row < width; row++)
      length = hypot(length, dot(matrix + row * width, found + i * width, width));
    CHECK(fabs(length - singular[i]) < 1e-14 * scale);
    CHECK(i == 0 || singular[i] <= singular[i - 1]);
    for (size_t k = 0; k < width; k++) {
      most = fmax(most, found[i * width + k]);
      least = fmin(least, found[i * width + k]);
    }
    CHECK(most >= -least * (1 - 1e-14)); /* two elements may have the same length */
  }
}

static void test_vectors_are_orthonormal(void) {
  for (int kind = 0; kind < KINDS; kind++)
    for (size_t width = 1; width <= WIDTH_MOST; width += 1 + width / 3) {
      double *scratch = malloc(num_svd_scratch(width) * sizeof *scratch);
      draw(width, kind);
      memcpy(found, matrix, width * width * sizeof *matrix);
      num_svd(found, width, singular, scratch);
      check_vectors(width);
      free(scratch);
    }
}

/* The determinant of a triangle is the product of its diagonal: the small values have all their digits. */
static void test_small_values_keep_their_digits(void) {
  enum { WIDTH = 12 };
  double scratch[1000], product = 1, truth = 1;
  CHECK(num_svd_scratch(WIDTH) <= 1000);
  draw(WIDTH, GRADED);
  memcpy(found, matrix, sizeof matrix);
  num_svd(found, WIDTH, singular, scratch);
  for (size_t i = 0; i < WIDTH; i++) product *= singular[i], truth *= matrix[i * WIDTH + i];
  CHECK(fabs(product / fabs(truth) - 1) < 1e-13);
}

static void test_zeros_have_vectors(void) {
  double scratch[100];
  memset(matrix, 0, sizeof matrix);
  matrix[3] = -2;
  memcpy(found, matrix, sizeof matrix);
  num_svd(found, 3, singular, scratch);
  CHECK(singular[0] == 2 && singular[1] == 0 && singular[2] == 0);
  check_vectors(3);
}

int main(void) {
  RUN(test_vectors_are_orthonormal);
  RUN(test_small_values_keep_their_digits);
  RUN(test_zeros_have_vectors);
  return 0;
}
