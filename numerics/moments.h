/* SPDX-License-Identifier: Apache-2.0
 *
 * Means and squares of columns in one pass over the rows. Sums are compensated: a sum has a second number with what was
 * rounded off, so it is as exact as one in twice the precision (T. Ogita, S. Rump and S. Oishi, 2005, Accurate Sum and
 * Dot Product, SIAM Journal on Scientific Computing 26, algorithms Sum2 and Dot2). So squares around a mean may come
 * from squares around 0, and do not depend on how rows are cut into blocks and ranks, but for the last bit.
 */
#ifndef SPARKRING_NUMERICS_MOMENTS_H
#define SPARKRING_NUMERICS_MOMENTS_H

#include <stddef.h>

/* The parts of a state, of which each is num_moments_stride(width) numbers. */
enum {
  NUM_MOMENTS_COUNT,
  NUM_MOMENTS_WEIGHT,
  NUM_MOMENTS_WEIGHT_REST,
  NUM_MOMENTS_SUM,
  NUM_MOMENTS_SUM_REST,
  NUM_MOMENTS_SQUARES,
  NUM_MOMENTS_SQUARES_REST,
  NUM_MOMENTS_LEAST,
  NUM_MOMENTS_MOST,
  NUM_MOMENTS_PARTS
};

/* Columns with those that only fill up vectors. */
size_t num_moments_stride(size_t width);

/* The numbers of a state. */
size_t num_moments_size(size_t width);

/* A state of no rows. */
void num_moments_open(double *state, size_t width);

/* The numbers of the memory that num_moments_add() uses. */
size_t num_moments_scratch(size_t width);

/* Adds rows. The number of row i and column k is x[i * row_step + k * column_step]. `weights` has a number for each
 * row, or is NULL for 1. Missing values (NaN) and rows of weight 0 do not count. */
void num_moments_add(double *state, size_t count, size_t width, const double *x, size_t row_step,
                     size_t column_step, const double *weights, double *scratch);

/* Adds the rows of another state. */
void num_moments_merge(double *state, const double *other, size_t width);

/* The results of each column, `width` numbers each: the number of values, the sum of their weights, their weighted
 * mean, and the weighted sum of squares around it, which is 0 where all values are equal. */
void num_moments_close(const double *state, size_t width, double *counts, double *weights,
                       double *means, double *squares);

#endif
