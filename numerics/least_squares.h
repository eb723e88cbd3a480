/* SPDX-License-Identifier: Apache-2.0
 *
 * Least squares of a few rows, such as a triangle, by Householder reflections. A column depends on columns before it if
 * less than `tolerance` of its length is left without their directions, as in lm() of R: such columns get no
 * coefficient. With a tolerance of 0, only columns of which nothing is left depend on others.
 */
#ifndef SPARKRING_NUMERICS_LEAST_SQUARES_H
#define SPARKRING_NUMERICS_LEAST_SQUARES_H

#include <stddef.h>
#include <stdint.h>

/* `order`: the columns that are used, in their order, then those that depend on others; columns count from 0.
 * `coefficients`: of all columns, NaN for those that depend on others. Of the used columns, in this order: `effects`,
 * the coordinates of the response along their directions; `root`, their triangle; `unscaled`, the inverse of the
 * products of the columns. Both have a row for each column of `x`, of which only the first are set. `rest`: the residual
 * sum of squares. The memory is that of the caller. */
typedef struct {
  size_t rank;
  double rest;
  int32_t *order;
  double *coefficients, *effects, *root, *unscaled;
} num_solution;

/* The numbers of the memory `scratch`. */
size_t num_least_squares_scratch(size_t rows, size_t columns);

/* `x` has `rows` rows, one after another, of `columns` numbers and the response. */
void num_least_squares(const double *x, size_t rows, size_t columns, double tolerance,
                       num_solution *solution, double *scratch);

#endif
