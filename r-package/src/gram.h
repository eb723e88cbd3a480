/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums of weighted products of columns, X'WX, over rows that are taken in tiles. A column of a tile has ROWS_OF_TILE
 * numbers, of which the last ones have the weight 0 where there are fewer rows. Loops of this fixed length have vector
 * instructions, and a tile stays in the cache while its products are added.
 */
#ifndef SPARKRING_GRAM_H
#define SPARKRING_GRAM_H

#include <Rinternals.h>
#include <stddef.h>

enum { ROWS_OF_TILE = 64, TILES_UNTIL_PAUSE = 1 << 10 };

/* The sum of the products of two columns. */
double gram_dot(const double *first, const double *second);

/* Adds the weighted products of the columns `left` and `right` to `sums`, a row for each of `left`, whose rows are
 * `stride` apart. If both are the same columns, only products on and above the diagonal. */
void gram_add(double *sums, size_t stride, const double *const *left, size_t lefts,
              const double *const *right, size_t rights, const double *weights);

/* Copies what is above the diagonal of a square below it. */
void gram_mirror(double *sums, size_t width);

#endif
