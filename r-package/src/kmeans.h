/* SPDX-License-Identifier: Apache-2.0
 *
 * Distances of rows to centers, for R/kmeans.R. `x` and `centers` are double matrices. A column of `x` is a row of
 * the data, so that a row is read from one place, and a row of `centers` is a center. `at` has the numbers of the rows
 * to look at, integers from 1. Distances come from differences, which cancel nothing.
 */
#ifndef SPARKRING_KMEANS_H
#define SPARKRING_KMEANS_H

#include <Rinternals.h>

/* A list: the nearest center of each row, an integer from 1, the distance to it, and the distance to the second
 * nearest, infinite if there is one center. */
SEXP kmeans_nearest(SEXP x, SEXP centers, SEXP at);

/* The distance of each row to the center `cluster[row]`. */
SEXP kmeans_distance(SEXP x, SEXP centers, SEXP cluster, SEXP at);

/* A matrix with a row for each of `k` clusters: the number of its rows, and the sums of their columns. */
SEXP kmeans_sums(SEXP x, SEXP cluster, SEXP k, SEXP at);

#endif
