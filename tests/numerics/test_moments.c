/* SPDX-License-Identifier: Apache-2.0
 *
 * Moments of columns that plain sums get wrong.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "moments.h"

enum { ROWS = 1000, WIDTH = 6 };

typedef struct {
  double counts[WIDTH], weights[WIDTH], means[WIDTH], squares[WIDTH];
} known;

/* The moments of `blocks` merged states of rows. `x` has the rows of a column after another. */
static known moments_of(const double *x, size_t rows, size_t width, const double *weights,
                        size_t blocks) {
  double *state = malloc(num_moments_size(width) * sizeof *state);
  double *part = malloc(num_moments_size(width) * sizeof *part);
  double *scratch = malloc(num_moments_scratch(width) * sizeof *scratch);
  known found = {0};
  num_moments_open(state, width);
  for (size_t block = 0; block < blocks; block++) {
    size_t from = block * rows / blocks, end = (block + 1) * rows / blocks;
    num_moments_open(part, width);
    num_moments_add(part, end - from, width, x + from, 1, rows, weights ? weights + from : NULL,
                    scratch);
    num_moments_merge(state, part, width);
  }
  num_moments_close(state, width, found.counts, found.weights, found.means, found.squares);
  free(state), free(part), free(scratch);
  return found;
}

static bool is_near(double found, double wanted, double tolerance) {
  return fabs(found - wanted) <= tolerance * fabs(wanted);
}

/* The first column has a spread of 1 around 1e8, of which plain sums of squares leave nothing. */
static void test_squares_around_a_far_mean(void) {
  static double x[ROWS * WIDTH], weights[ROWS];
  for (size_t i = 0; i < ROWS; i++) {
    double sign = i % 2 == 0 ? 1 : -1;
    double row[WIDTH] = {1e8 + sign, sign * 1e-8, 0.1, i == 0 ? 1e9 : sign, i % 5 == 0 ? NAN : sign,
                         3 + sign};
    for (size_t k = 0; k < WIDTH; k++) x[k * ROWS + i] = row[k];
    weights[i] = i % 4 < 2 ? 2 : 0;
  }
  for (size_t blocks = 1; blocks <= 70; blocks += 23) {
    known all = moments_of(x, ROWS, WIDTH, NULL, blocks);
    known half = moments_of(x, ROWS, WIDTH, weights, blocks);
    CHECK(all.counts[0] == ROWS && all.counts[4] == ROWS * 0.8 && half.counts[0] == ROWS / 2.0);
    CHECK(all.means[0] == 1e8 && all.squares[0] == ROWS && half.weights[0] == ROWS);
    CHECK(is_near(all.squares[1], ROWS * 1e-16, 1e-14) && half.squares[0] == ROWS);
    CHECK(all.means[2] == 0.1 && all.squares[2] == 0); /* constant */
    double mean = (1e9 - 1) / ROWS, squares = 1e18 + ROWS - 1 - mean * mean * ROWS;
    CHECK(is_near(all.means[3], mean, 1e-15) && is_near(all.squares[3], squares, 1e-14));
    CHECK(all.means[4] == 0 && all.squares[4] == ROWS * 0.8);
    CHECK(all.means[5] == 3 && all.squares[5] == ROWS);
  }
}

static void test_numbers_that_are_too_large(void) {
  const double x[2 * WIDTH] = {INFINITY, 1,      -INFINITY, INFINITY, 1e308, 1e308,
                               1e200,    -1e200, NAN,       NAN,      5,     NAN};
  known found = moments_of(x, 2, WIDTH, NULL, 1);
  CHECK(found.means[0] == INFINITY && isnan(found.means[1]));
  CHECK(found.means[2] == 1e308 && found.squares[2] == 0);
  CHECK(found.means[3] == 0 && found.squares[3] == INFINITY);
  CHECK(found.counts[4] == 0 && isnan(found.means[4]));
  CHECK(found.counts[5] == 1 && found.means[5] == 5 && found.squares[5] == 0);
}

int main(void) {
  RUN(test_squares_around_a_far_mean);
  RUN(test_numbers_that_are_too_large);
  return 0;
}
