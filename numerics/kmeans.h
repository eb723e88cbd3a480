/* SPDX-License-Identifier: Apache-2.0
 *
 * K-means: distances of rows to centers, and Lloyd's iterations, which skip most distances by Hamerly's bounds (G.
 * Hamerly, 2010, Making k-means even faster, SIAM International Conference on Data Mining). Distances come from
 * differences, which cancel nothing. Sums take the rows in their order, so blocks of rows give the bits of all rows at
 * once.
 *
 * A center is as long as a row, and the next center is after it. Clusters have numbers from 0 on. `scratch` is memory of
 * num_kmeans_scratch() numbers.
 */
#ifndef SPARKRING_NUMERICS_KMEANS_H
#define SPARKRING_NUMERICS_KMEANS_H

#include <stddef.h>
#include <stdint.h>

#include "rows.h"

size_t num_kmeans_scratch(size_t clusters, size_t width);

/* For each row the nearest center, the squared distance to it, and the squared distance to the second nearest, which is
 * infinite if there is one center. `second` may be NULL. */
void num_kmeans_nearest(const num_rows *rows, const double *centers, size_t clusters,
                        int32_t *nearest, double *best, double *second, double *scratch);

/* The sums of a cluster: the number of its rows, their weight, and the weighted sum of each column. Rows of weight 0 do
 * not count. */
enum { NUM_KMEANS_ROWS, NUM_KMEANS_WEIGHT, NUM_KMEANS_COLUMNS };

/* Adds rows to the sums of their clusters. */
void num_kmeans_sums(const num_rows *rows, const int32_t *nearest, double *sums, double *scratch);

/* Moves the centers of clusters with rows to the means of their rows. Returns the number of clusters without rows. */
size_t num_kmeans_means(const double *sums, size_t clusters, size_t width, double *centers);

/* How far each center is from where it was before. Returns the sum of the squares. */
double num_kmeans_moves(const double *before, const double *centers, size_t clusters, size_t width,
                        double *moves);

/* Half the distance of each center to the nearest other center; infinite if there is none. */
void num_kmeans_half(const double *centers, size_t clusters, size_t width, double *half);

/* The bounds of each row: its cluster, an upper bound of the distance to its center, and a lower bound of the
 * distance to every other center. */
typedef struct {
  int32_t *nearest;
  double *upper, *lower;
} num_kmeans_bounds;

/* Gives rows their nearest centers. Since the bounds held, center i has moved by `moves[i]`; `half` is that of the
 * centers now. The changes of the sums by rows with another cluster are added to `delta`. Returns the number of these rows. */
size_t num_kmeans_assign(const num_rows *rows, const double *centers, size_t clusters,
                         const double *moves, const double *half, const num_kmeans_bounds *bounds,
                         double *delta, double *scratch);

/* The squared distance of each row to the center of its cluster. */
void num_kmeans_distance(const num_rows *rows, const int32_t *nearest, const double *centers,
                         double *squares, double *scratch);

/* Moves the center of each cluster without rows to the next row of `far`, from its first row on. */
void num_kmeans_refill(const double *sums, size_t clusters, size_t width, const double *far,
                       size_t count, double *centers);

#endif
