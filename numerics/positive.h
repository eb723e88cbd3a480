/* SPDX-License-Identifier: Apache-2.0
 *
 * Symmetric positive matrices, such as an information and its inverse, a covariance. Columns may depend on columns
 * before them: these are left out, so the order of the columns decides which, and an inverse has zeros for them.
 * There is no other pivoting, and no operation but those of IEEE 754, so all ranks get the same bits.
 */
#ifndef SPARKRING_NUMERICS_POSITIVE_H
#define SPARKRING_NUMERICS_POSITIVE_H

#include <stddef.h>
#include <stdint.h>

/* The numbers of the memory that each function uses. */
size_t num_positive_scratch(size_t width);

/* Clears `kept` for columns that depend on columns before them: those whose rest, after these columns, is at most
 * `least`, or `tolerance` times the largest number of the diagonal. */
void num_positive_kept(const double *matrix, size_t width, double least, double tolerance,
                       int32_t *kept, double *scratch);

/* The inverse of the columns that are kept, by its Cholesky decomposition with a diagonal of ones. */
void num_positive_invert(const double *matrix, size_t width, const int32_t *kept, double *inverse,
                         double *scratch);

/* The product with a vector. Returns the vector times the product. */
double num_positive_multiply(const double *matrix, size_t width, const double *vector,
                             double *product);

/* The statistic of values with this covariance: of the values divided by their standard errors, and the inverse of
 * the correlations. Columns that depend on others by `tolerance` do not count; nor do those of variance 0. */
double num_positive_wald(const double *covariance, size_t width, const double *values,
                         double tolerance, int32_t *kept, double *scratch);

#endif
