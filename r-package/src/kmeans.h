/* SPDX-License-Identifier: Apache-2.0
 *
 * K-means for R/kmeans.R, by numerics/kmeans.h. `x` is a double matrix whose columns are the rows of the data, and
 * `shift` has a number for each of its rows, which is subtracted. The columns of `centers` are centers. Clusters have
 * numbers from 0 on.
 */
#ifndef SPARKRING_KMEANS_H
#define SPARKRING_KMEANS_H

#include <Rinternals.h>

/* A list: the nearest center of each row, `nearest`; the squared distance to it, `best`; and the squared distance to the
 * second nearest, `second`, infinite if there is one center. */
SEXP kmeans_nearest(SEXP x, SEXP shift, SEXP centers);

/* The squared distance of each row to the center of its cluster. */
SEXP kmeans_distance(SEXP x, SEXP shift, SEXP nearest, SEXP centers);

/* A matrix with a column for each of `clusters`: the number of its rows, their weight, which is the same, and the sums
 * of their numbers. */
SEXP kmeans_sums(SEXP x, SEXP shift, SEXP nearest, SEXP clusters);

/* A list: `centers`, where clusters with rows are at the means of their rows; and `empty`, the number of the others. */
SEXP kmeans_means(SEXP sums, SEXP centers);

/* The centers, where clusters without rows are at the columns of `far`. */
SEXP kmeans_refill(SEXP sums, SEXP centers, SEXP far);

/* A list: `moves`, how far each center has moved; `shift`, the sum of their squares; and `half`, half the distance of
 * each center to its nearest other center. */
SEXP kmeans_moves(SEXP before, SEXP centers);

/* The next step of Lloyd's iterations. `state` is a list with `nearest`; with `upper`, an upper bound of the distance to
 * that center; and with `lower`, a lower bound of the distance to every other center. `moved` is what kmeans_moves()
 * returned. Returns the new state, with two more elements: `changed`, the number of rows with another cluster, and
 * `delta`, what they add to kmeans_sums(). */
SEXP kmeans_assign(SEXP x, SEXP shift, SEXP centers, SEXP moved, SEXP state);

/* The start (numerics/kmeans_start.h). `seed` and `rank` are whole numbers. The row with the smallest random number,
 * after that number. */
SEXP kmeans_first(SEXP x, SEXP shift, SEXP seed, SEXP rank);

/* The sum of the squares. */
SEXP kmeans_total(SEXP squares);

/* The places, from 1, of the rows that are drawn in a round. */
SEXP kmeans_draw(SEXP squares, SEXP factor, SEXP seed, SEXP rank, SEXP round);

/* The centers that are chosen among the rows, which have weights. */
SEXP kmeans_choose(SEXP x, SEXP weights, SEXP clusters, SEXP seed);

#endif
