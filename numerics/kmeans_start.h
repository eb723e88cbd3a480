/* SPDX-License-Identifier: Apache-2.0
 *
 * The start of k-means, k-means|| (B. Bahmani and others, 2012, Scalable k-means++, Proceedings of the VLDB Endowment
 * 5(7)): in each round rows become candidates with chances in proportion to their squared distances to the candidates
 * so far, and k-means++ chooses the centers among the candidates (D. Arthur and S. Vassilvitskii, 2007).
 *
 * `from` is the number of rows of this rank before the rows that are passed.
 */
#ifndef SPARKRING_NUMERICS_KMEANS_START_H
#define SPARKRING_NUMERICS_KMEANS_START_H

#include "random.h"
#include "rows.h"

/* Keeps the row with the smallest random number, which `first` has: that number, and then the row. Before the first
 * rows, first[0] is infinite. Rows of weight 0 do not count. */
void num_kmeans_first(const num_rows *rows, uint64_t from, const num_random *random, double *first);

/* The sum of weighted squares is added to `total`. */
void num_kmeans_total(const num_rows *rows, const double *squares, double *total);

/* Draws rows, each with the chance `factor` times its weighted square. `drawn` gets their places from 0, and the number
 * of them is returned. */
size_t num_kmeans_draw(const num_rows *rows, const double *squares, double factor, uint64_t from,
                       const num_random *random, int32_t *drawn);

/* The numbers of the memory that num_kmeans_choose() uses. */
size_t num_kmeans_choose_scratch(size_t candidates, size_t clusters, size_t width);

/* Chooses centers among the rows, which have weights, and moves them by Lloyd's iterations. */
void num_kmeans_choose(const num_rows *rows, size_t clusters, uint64_t seed, double *centers,
                       double *scratch);

#endif
