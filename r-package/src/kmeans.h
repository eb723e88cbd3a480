/* SPDX-License-Identifier: Apache-2.0
 *
 * Distances of rows to centers, for R/kmeans.R. `x` and `centers` are double matrices. A column of `x` is a row of
 * the data, so that a row is read from one place, and a row of `centers` is a center. Distances come from differences,
 * which cancel nothing.
 */
#ifndef SPARKRING_KMEANS_H
#define SPARKRING_KMEANS_H

#include <Rinternals.h>

/* A list: the nearest center of each row, `cluster`, an integer from 1; the squared distance to it, `best`; and the
 * squared distance to the second nearest, `second`, infinite if there is one center. */
SEXP kmeans_nearest(SEXP x, SEXP centers);

/* The next step of Lloyd's iterations, by Hamerly's bounds. `state` is a list with `cluster`; with `upper`, an upper
 * bound of the distance to that center; and with `lower`, a lower bound of the distance to every other center. Since
 * then center i has moved by `moves[i]`, and `half[i]` is half the distance to its nearest other center. Returns the
 * new state, with two more elements: `changed`, the number of rows with another cluster, and `delta`, what they add to
 * kmeans_sums(). */
SEXP kmeans_assign(SEXP x, SEXP centers, SEXP moves, SEXP half, SEXP state);

/* The distance of each row to the center `cluster[row]`. */
SEXP kmeans_distance(SEXP x, SEXP centers, SEXP cluster);

/* A matrix with a row for each of `k` clusters: the number of its rows, and the sums of their columns. */
SEXP kmeans_sums(SEXP x, SEXP cluster, SEXP k);

#endif
