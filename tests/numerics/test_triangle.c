/* SPDX-License-Identifier: Apache-2.0
 *
 * Triangles beside the products of their rows, for counts around the sizes of blocks, and least squares beside known
 * coefficients.
 */
#include "triangle.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "least_squares.h"
#include "random.h"

enum { ROWS_MOST = 2100, WIDTH_MOST = 11 };

static double x[ROWS_MOST * WIDTH_MOST], last[ROWS_MOST], roots[ROWS_MOST];

/* Rows with a column far from 0, by columns; every third row has no weight, and values that do not count. */
static num_triangle_rows draw_rows(size_t count, size_t columns) {
  const num_random random = {.seed = count, .stream = columns};
  for (size_t i = 0; i < count; i++) {
    roots[i] = i % 3 == 1 ? 0 : 1 + (double)(i % 5) / 4;
    last[i] = roots[i] == 0 ? NAN : num_random_uniform(&random, i);
    for (size_t k = 0; k < columns; k++) {
      double number = num_random_uniform(&random, 10000 + i * columns + k);
      x[k * count + i] = roots[i] == 0 ? INFINITY : number + (k == 1 ? 1e6 : 0);
    }
  }
  return (num_triangle_rows){.count = count,
                             .columns = columns,
                             .row_step = 1,
                             .column_step = count,
                             .x = x,
                             .last = last,
                             .roots = roots,
                             .ones = true};
}

static double *state_of(size_t width, bool centered) {
  double *state = malloc(num_triangle_size(width) * sizeof *state);
  num_triangle_open(state, width, centered);
  return state;
}

/* Adds the rows from `from` up to `to`. */
static void add_part(double *state, const num_triangle_rows *rows, size_t from, size_t to) {
  num_triangle_rows part = *rows;
  part.count = to - from;
  part.x += from, part.last += from, part.roots += from;
  num_triangle_add(state, &part);
}

static double number_of(const num_triangle_rows *rows, size_t row, size_t k) {
  double number = k == 0               ? 1
                  : k <= rows->columns ? rows->x[(k - 1) * rows->column_step + row]
                                       : rows->last[row];
  return number * rows->roots[row];
}

/* R'R is X'X. */
static void check_products(const num_triangle_rows *rows, const double *r, size_t width) {
  for (size_t j = 0; j < width; j++)
    for (size_t k = j; k < width; k++) {
      double wanted = 0, found = 0;
      for (size_t i = 0; i < rows->count; i++)
        if (rows->roots[i] != 0) wanted += number_of(rows, i, j) * number_of(rows, i, k);
      for (size_t i = 0; i <= j; i++) found += r[i * width + j] * r[i * width + k];
      CHECK(fabs(found - wanted) <= 1e-12 * fabs(wanted) + 1e-9);
    }
  for (size_t j = 0; j < width; j++) CHECK(r[j * width + j] >= 0);
}

static void check_rows(size_t count, size_t columns) {
  num_triangle_rows rows = draw_rows(count, columns);
  size_t width = columns + 2, bytes = num_triangle_message(width) * sizeof(double);
  double *whole = state_of(width, true), *cut = state_of(width, true);
  double *first = state_of(width, true), *second = state_of(width, true);
  add_part(whole, &rows, 0, count);
  for (size_t from = 0, step = 1; from < count; from += step++)
    add_part(cut, &rows, from, from + step < count ? from + step : count);
  num_triangle_close(whole, width), num_triangle_close(cut, width);
  CHECK(memcmp(whole, cut, bytes) == 0);
  add_part(first, &rows, 0, count / 3), add_part(second, &rows, count / 3, count);
  num_triangle_close(first, width), num_triangle_close(second, width);
  num_triangle_merge(first, second, width);
  num_triangle_finish(whole, width), num_triangle_finish(first, width);
  check_products(&rows, whole, width);
  check_products(&rows, first, width);
  /* The spread around the mean of the column that is far from 0 keeps its digits. */
  if (columns > 1 && count > 30)
    CHECK(fabs(first[2 * width + 2] / whole[2 * width + 2] - 1) < 1e-14);
  CHECK(first[width * width + width] == whole[width * width + width]);
  free(whole), free(cut), free(first), free(second);
}

static void test_cuts_and_merges_change_nothing(void) {
  for (size_t columns = 0; columns <= WIDTH_MOST; columns++)
    for (size_t count = 0; count <= ROWS_MOST; count = 2 * count + 7) check_rows(count, columns);
}

static void test_values_that_are_not_finite_stay_in_their_column(void) {
  num_triangle_rows rows = draw_rows(100, 3);
  double *state = state_of(5, false);
  x[1 * 100 + 6] = NAN;
  num_triangle_add(state, &rows);
  num_triangle_close(state, 5);
  num_triangle_finish(state, 5);
  for (size_t k = 0; k < 2; k++)
    for (size_t i = 0; i <= k; i++) CHECK(isfinite(state[i * 5 + k]));
  CHECK(!isfinite(state[0 * 5 + 2]));
  free(state);
}

/* y = 3 a - 2 c, and b = 2 a depends on a. */
static void test_dependent_columns_have_no_coefficient(void) {
  enum { ROWS = 6, COLUMNS = 3 };
  double rows[ROWS * (COLUMNS + 1)], memory[100];
  int32_t order[COLUMNS];
  double coefficients[COLUMNS], effects[COLUMNS], root[COLUMNS * COLUMNS];
  double unscaled[COLUMNS * COLUMNS];
  num_solution s = {.order = order,
                    .coefficients = coefficients,
                    .effects = effects,
                    .root = root,
                    .unscaled = unscaled};
  for (int i = 0; i < ROWS; i++) {
    double a = 1 + i, c = i * i;
    memcpy(rows + 4 * i, (double[]){a, 2 * a, c, 3 * a - 2 * c}, 4 * sizeof *rows);
  }
  CHECK(num_least_squares_scratch(ROWS, COLUMNS) <= 100);
  num_least_squares(rows, ROWS, COLUMNS, 1e-7, &s, memory);
  CHECK_INT(s.rank, 2);
  CHECK(order[0] == 0 && order[1] == 2 && order[2] == 1);
  CHECK(fabs(coefficients[0] - 3) < 1e-13 && fabs(coefficients[2] + 2) < 1e-13);
  CHECK(isnan(coefficients[1]) && s.rest < 1e-24);
  double sums[3] = {0}; /* the products of a and c, whose inverse is `unscaled` */
  for (int i = 0; i < ROWS; i++) {
    double a = 1 + i, c = i * i;
    sums[0] += a * a, sums[1] += a * c, sums[2] += c * c;
  }
  CHECK(fabs(sums[0] * unscaled[0] + sums[1] * unscaled[COLUMNS] - 1) < 1e-12);
  CHECK(fabs(sums[0] * unscaled[1] + sums[1] * unscaled[COLUMNS + 1]) < 1e-12);
}

static void test_a_rank_may_be_0(void) {
  double rows[] = {0, 1, 0, 2}, memory[20], one[1] = {0}, effects[1], root[1], unscaled[1];
  int32_t order[1];
  num_solution s = {
      .order = order, .coefficients = one, .effects = effects, .root = root, .unscaled = unscaled};
  num_least_squares(rows, 2, 1, 0, &s, memory);
  CHECK(s.rank == 0 && isnan(one[0]) && s.rest == 5);
  num_least_squares(rows + 1, 1, 0, 0, &s, memory);
  CHECK(s.rank == 0 && s.rest == 1);
}

int main(void) {
  RUN(test_cuts_and_merges_change_nothing);
  RUN(test_values_that_are_not_finite_stay_in_their_column);
  RUN(test_dependent_columns_have_no_coefficient);
  RUN(test_a_rank_may_be_0);
  return 0;
}
