/* SPDX-License-Identifier: Apache-2.0 */
#include "moments.h"

#include <math.h>
#include <string.h>

#include "exact.h"
#include "lanes.h"

enum { MOMENTS_TILE = 16 }; /* rows */

size_t num_moments_stride(size_t width) {
  return (width + LANES - 1) / LANES * LANES;
}

size_t num_moments_size(size_t width) {
  return NUM_MOMENTS_PARTS * num_moments_stride(width);
}

size_t num_moments_scratch(size_t width) {
  return MOMENTS_TILE * num_moments_stride(width);
}

void num_moments_open(double *state, size_t width) {
  size_t stride = num_moments_stride(width);
  memset(state, 0, num_moments_size(width) * sizeof *state);
  for (size_t k = 0; k < stride; k++) {
    state[NUM_MOMENTS_LEAST * stride + k] = INFINITY;
    state[NUM_MOMENTS_MOST * stride + k] = -INFINITY;
  }
}

/* ---- Sums in twice the precision -------------------------------------------------------------------------------- */

/* A number as the sum of two with half as many bits (T. Dekker, 1971). */
#define MOMENTS_SPLIT(x, high, low)                                                                \
  do {                                                                                             \
    turn = (x) * 134217729.0;                                                                      \
    (high) = turn - (turn - (x));                                                                  \
    (low) = (x) - (high);                                                                          \
  } while (0)

/* The rounding error of `product`, which is that of the two numbers that were split. */
#define MOMENTS_LOST(product, high, low, other_high, other_low)                                    \
  ((((high) * (other_high) - (product)) + (high) * (other_low) + (low) * (other_high)) +           \
   (low) * (other_low))

typedef long long lanes_mask __attribute__((vector_size(LANES * sizeof(long long)), may_alias));

/* `x` where the mask is set, else `y`. */
#define MOMENTS_CHOOSE(mask, x, y)                                                                 \
  ((lanes)(((mask) & (lanes_mask)(x)) | (~(mask) & (lanes_mask)(y))))

/* Adds a row of weight `weight`, which is split into `high` and `low`. */
LANES_INLINE void moments_row(double *state, size_t stride, const double *row, double weight,
                              double high, double low) {
  const lanes zero = {0}, ones = zero + 1;
  for (size_t k = 0; k < stride; k += LANES) {
    double *at = state + k;
    lanes x = LANES_AT(row + k), added, turn;
    lanes_mask known = x == x;
    lanes least = LANES_AT(at + NUM_MOMENTS_LEAST * stride);
    lanes most = LANES_AT(at + NUM_MOMENTS_MOST * stride);
    LANES_PUT(at + NUM_MOMENTS_LEAST * stride, MOMENTS_CHOOSE(x < least, x, least));
    LANES_PUT(at + NUM_MOMENTS_MOST * stride, MOMENTS_CHOOSE(x > most, x, most));
    x = MOMENTS_CHOOSE(known, x, zero);
    lanes one = MOMENTS_CHOOSE(known, ones, zero), weighs = one * weight;
    LANES_PUT(at, LANES_AT(at) + one); /* NUM_MOMENTS_COUNT */
    lanes sum = LANES_AT(at + NUM_MOMENTS_WEIGHT * stride);
    lanes rest = LANES_AT(at + NUM_MOMENTS_WEIGHT_REST * stride);
    EXACT_ADD(sum, rest, weighs);
    LANES_PUT(at + NUM_MOMENTS_WEIGHT * stride, sum);
    LANES_PUT(at + NUM_MOMENTS_WEIGHT_REST * stride, rest);
    lanes x_high, x_low, product = weighs * x, lost;
    MOMENTS_SPLIT(x, x_high, x_low);
    lost = MOMENTS_LOST(product, x_high, x_low, high, low);
    lost = MOMENTS_CHOOSE(lost == lost, lost, zero); /* else the number is too large to be split */
    sum = LANES_AT(at + NUM_MOMENTS_SUM * stride);
    rest = LANES_AT(at + NUM_MOMENTS_SUM_REST * stride) + lost;
    EXACT_ADD(sum, rest, product);
    LANES_PUT(at + NUM_MOMENTS_SUM * stride, sum);
    LANES_PUT(at + NUM_MOMENTS_SUM_REST * stride, rest);
    lanes square = product * x, product_high, product_low;
    MOMENTS_SPLIT(product, product_high, product_low);
    lost = lost * x + MOMENTS_LOST(square, product_high, product_low, x_high, x_low);
    lost = MOMENTS_CHOOSE(lost == lost, lost, zero);
    sum = LANES_AT(at + NUM_MOMENTS_SQUARES * stride);
    rest = LANES_AT(at + NUM_MOMENTS_SQUARES_REST * stride) + lost;
    EXACT_ADD(sum, rest, square);
    LANES_PUT(at + NUM_MOMENTS_SQUARES * stride, sum);
    LANES_PUT(at + NUM_MOMENTS_SQUARES_REST * stride, rest);
  }
}

/* ---- Rows ------------------------------------------------------------------------------------------------------- */

LANES_CLONES static void moments_tile(double *state, size_t stride, const double *tile, size_t rows,
                                      const double *weights) {
  for (size_t i = 0; i < rows; i++) {
    double weight = weights ? weights[i] : 1, turn, high, low;
    if (weight == 0) continue;
    MOMENTS_SPLIT(weight, high, low);
    moments_row(state, stride, tile + i * stride, weight, high, low);
  }
}

void num_moments_add(double *state, size_t count, size_t width, const double *x, size_t row_step,
                     size_t column_step, const double *weights, double *scratch) {
  size_t stride = num_moments_stride(width);
  for (size_t k = width; k < stride; k++)
    for (size_t i = 0; i < MOMENTS_TILE; i++) scratch[i * stride + k] = NAN;
  for (size_t from = 0; from < count; from += MOMENTS_TILE) {
    size_t left = count - from, rows = left < MOMENTS_TILE ? left : MOMENTS_TILE;
    const double *first = x + from * row_step;
    for (size_t k = 0; k < width; k++)
      for (size_t i = 0; i < rows; i++)
        scratch[i * stride + k] = first[i * row_step + k * column_step];
    moments_tile(state, stride, scratch, rows, weights ? weights + from : NULL);
  }
}

/* ---- States ----------------------------------------------------------------------------------------------------- */

static void moments_join(double *sum, double *rest, double other, double other_rest) {
  double added, turn;
  *rest += other_rest;
  EXACT_ADD(*sum, *rest, other);
}

void num_moments_merge(double *state, const double *other, size_t width) {
  size_t stride = num_moments_stride(width);
  for (size_t k = 0; k < width; k++) {
    double *to = state + k;
    const double *from = other + k;
    to[0] += from[0]; /* NUM_MOMENTS_COUNT */
    for (size_t part = NUM_MOMENTS_WEIGHT; part < NUM_MOMENTS_LEAST; part += 2)
      moments_join(to + part * stride, to + (part + 1) * stride, from[part * stride],
                   from[(part + 1) * stride]);
    size_t least = NUM_MOMENTS_LEAST * stride, most = NUM_MOMENTS_MOST * stride;
    to[least] = fmin(to[least], from[least]);
    to[most] = fmax(to[most], from[most]);
  }
}

/* A sum with its rest, unless that was lost with an infinite sum. */
static double moments_total(double sum, double rest) {
  return isfinite(sum) && isfinite(rest) ? sum + rest : sum;
}

/* The squares around the mean m: S - 2 m s + m m w, where s, S and w are the sums of the numbers, their squares and the
 * weights. Of m m w the rounding errors count, too. */
static double moments_squares(const double *state, size_t stride, double mean) {
  if (isinf(state[NUM_MOMENTS_SQUARES * stride])) return isfinite(mean) ? INFINITY : NAN;
  double weight = state[NUM_MOMENTS_WEIGHT * stride];
  double weight_rest = state[NUM_MOMENTS_WEIGHT_REST * stride];
  double square = mean * mean, square_rest = fma(mean, mean, -square);
  double whole = square * weight;
  double whole_rest = fma(square, weight, -whole) + square_rest * weight + square * weight_rest;
  double product = mean * weight;
  double gap = (state[NUM_MOMENTS_SUM * stride] - product) - fma(mean, weight, -product) +
               state[NUM_MOMENTS_SUM_REST * stride] - mean * weight_rest;
  return (state[NUM_MOMENTS_SQUARES * stride] - whole) +
         (state[NUM_MOMENTS_SQUARES_REST * stride] - whole_rest - 2 * mean * gap);
}

void num_moments_close(const double *state, size_t width, double *counts, double *weights,
                       double *means, double *squares) {
  size_t stride = num_moments_stride(width);
  for (size_t k = 0; k < width; k++) {
    const double *at = state + k;
    double least = at[NUM_MOMENTS_LEAST * stride];
    counts[k] = at[0]; /* NUM_MOMENTS_COUNT */
    weights[k] =
        moments_total(at[NUM_MOMENTS_WEIGHT * stride], at[NUM_MOMENTS_WEIGHT_REST * stride]);
    if (counts[k] > 0 && isfinite(least) && least == at[NUM_MOMENTS_MOST * stride]) {
      means[k] = least, squares[k] = 0;
      continue;
    }
    means[k] =
        moments_total(at[NUM_MOMENTS_SUM * stride], at[NUM_MOMENTS_SUM_REST * stride]) / weights[k];
    double found = moments_squares(at, stride, means[k]);
    squares[k] = found > 0 || isnan(found) ? found : 0;
  }
}
