/* SPDX-License-Identifier: Apache-2.0
 *
 * The singular value decomposition of a square matrix, by rotations of its rows in pairs until they are orthogonal
 * (one-sided Jacobi: M. Hestenes, 1958, Inversion of matrices by biorthogonalization, Journal of the Society for
 * Industrial and Applied Mathematics 6). Small singular values keep the digits that the rows have, and rows of a triangle
 * are nearly orthogonal at first (Z. Drmac and K. Veselic, 2008, New fast and accurate Jacobi SVD algorithm, SIAM Journal
 * on Matrix Analysis and Applications 29).
 */
#ifndef SPARKRING_NUMERICS_SVD_H
#define SPARKRING_NUMERICS_SVD_H

#include <stddef.h>

/* The numbers of the memory `scratch`. */
size_t num_svd_scratch(size_t width);

/* Replaces the rows of the matrix by its right singular vectors, whose largest element is positive, and finds the
 * singular values, the largest first. All numbers are finite. */
void num_svd(double *matrix, size_t width, double *singular, double *scratch);

#endif
