/* SPDX-License-Identifier: Apache-2.0
 *
 * Weighted sums of the products of columns, X'WX, of rows that come one by one. Rows are summed in tiles, whose sums
 * are added, so many rows lose little.
 */
#ifndef SPARKRING_NUMERICS_PRODUCTS_H
#define SPARKRING_NUMERICS_PRODUCTS_H

#include <stddef.h>

/* The numbers of `products`, which are 0 at first. `stride` is the width filled up to whole vectors. */
size_t num_products_size(size_t stride);

/* Adds a row of `stride` numbers. */
void num_products_add(double *products, size_t stride, const double *row, double weight);

/* The sums of the products of the first `width` columns. Rows may be added afterwards. */
void num_products_get(double *products, size_t stride, size_t width, double *sums);

#endif
