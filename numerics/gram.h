/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums of products of columns over rows that are taken in tiles. A column of a tile has NUM_TILE numbers, of which the
 * last ones have the weight 0 if there are fewer rows. A tile stays in the cache while its products are added. A sum
 * over a tile has four lanes, which are added at its end.
 */
#ifndef SPARKRING_NUMERICS_GRAM_H
#define SPARKRING_NUMERICS_GRAM_H

#include <stddef.h>

enum { NUM_TILE = 64 };

/* Adds the products of the column `left` with each column of `right` to `sums`. */
void num_gram_dots(double *sums, const double *left, const double *const *right, size_t count);

/* Adds the weighted products of the columns `left` and `right` to `sums`, a row for each of `left`, whose rows are
 * `stride` apart. If both are the same columns, only products on and above the diagonal. */
void num_gram_add(double *sums, size_t stride, const double *const *left, size_t lefts,
                  const double *const *right, size_t rights, const double *weights);

/* Copies what is above the diagonal of a square below it. */
void num_gram_mirror(double *sums, size_t width);

#endif
