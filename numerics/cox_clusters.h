/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums of residuals over clusters of rows that depend on each other, for the robust covariance (D. Lin and L. Wei, 1989).
 * A row is the number of its cluster, and then `width` numbers.
 */
#ifndef SPARKRING_NUMERICS_COX_CLUSTERS_H
#define SPARKRING_NUMERICS_COX_CLUSTERS_H

#include <stddef.h>

/* Adds up the rows of each cluster, in their order. The rows are sorted by cluster. Returns the number of clusters. */
size_t num_cox_clusters(const double *rows, size_t count, size_t width, double *clusters);

/* The sums of the rows of clusters, and of the products of their columns: width + width * width numbers. With a matrix
 * that is not NULL, they are those of the matrix times each row. `scratch` is memory of
 * num_cox_influence_scratch() numbers. */
size_t num_cox_influence_scratch(size_t width);
void num_cox_influence(const double *clusters, size_t count, size_t width, const double *matrix,
                       double *sums, double *scratch);

#endif
