/* SPDX-License-Identifier: Apache-2.0 */
#include "products.h"

#include <string.h>

#include "lanes.h"

enum { PRODUCTS_TILE = 64 }; /* rows */

/* The number of rows in the tile is before the tile, its rows with weights, and the sums. */
typedef struct {
  double *count, *tile, *weighted, *sums;
} products_parts;

size_t num_products_size(size_t stride) {
  return 1 + (2 * PRODUCTS_TILE + stride) * stride;
}

static products_parts products_open(double *products, size_t stride) {
  double *tile = products + 1, *weighted = tile + PRODUCTS_TILE * stride;
  return (products_parts){products, tile, weighted, weighted + PRODUCTS_TILE * stride};
}

/* Adds the products of four columns with four columns. */
LANES_INLINE void products_block(const double *weighted, const double *tile, size_t stride,
                                 double *sums) {
  lanes a = {0}, b = a, c = a, d = a;
  for (int i = 0; i < PRODUCTS_TILE; i++, weighted += stride, tile += stride) {
    lanes x = LANES_AT(tile);
    a += weighted[0] * x, b += weighted[1] * x, c += weighted[2] * x, d += weighted[3] * x;
  }
  LANES_PUT(sums, LANES_AT(sums) + a), sums += stride;
  LANES_PUT(sums, LANES_AT(sums) + b), sums += stride;
  LANES_PUT(sums, LANES_AT(sums) + c), sums += stride;
  LANES_PUT(sums, LANES_AT(sums) + d);
}

/* Adds the products of a tile, on and above the diagonal. */
LANES_CLONES static void products_flush(const products_parts *parts, size_t stride) {
  for (size_t j = 0; j < stride; j += LANES)
    for (size_t k = j; k < stride; k += LANES)
      products_block(parts->weighted + j, parts->tile + k, stride, parts->sums + j * stride + k);
  *parts->count = 0;
}

void num_products_add(double *products, size_t stride, const double *row, double weight) {
  products_parts parts = products_open(products, stride);
  size_t at = (size_t)*parts.count * stride;
  for (size_t k = 0; k < stride; k += LANES) {
    lanes x = LANES_AT(row + k);
    LANES_PUT(parts.tile + at + k, x);
    LANES_PUT(parts.weighted + at + k, x * weight);
  }
  if (++*parts.count == PRODUCTS_TILE) products_flush(&parts, stride);
}

void num_products_get(double *products, size_t stride, size_t width, double *sums) {
  products_parts parts = products_open(products, stride);
  size_t from = (size_t)*parts.count * stride, left = PRODUCTS_TILE * stride - from;
  memset(parts.tile + from, 0, left * sizeof *sums);
  memset(parts.weighted + from, 0, left * sizeof *sums);
  products_flush(&parts, stride);
  for (size_t j = 0; j < width; j++)
    for (size_t k = j; k < width; k++)
      sums[j * width + k] = sums[k * width + j] = parts.sums[j * stride + k];
}
