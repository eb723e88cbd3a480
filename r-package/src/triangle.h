/* SPDX-License-Identifier: Apache-2.0
 *
 * The triangle R of a QR decomposition of many rows, by Householder reflections (Golub and Van Loan, Matrix
 * Computations, section 5.2). Rows are taken in blocks that stay in the cache: a reflection of a block touches one row
 * of R and the block. So the rows are read once, and no copy of them is made. Triangles of panels of blocks are
 * reduced in the same way, so that rounding errors grow with the number of panels.
 */
#ifndef SPARKRING_TRIANGLE_H
#define SPARKRING_TRIANGLE_H

#include <Rinternals.h>

/* R of the triangle `above`, unless it is NULL, and of the rows of the double matrix `x`, with the column `y` behind
 * them unless it is NULL. Unless `shift` is NULL, a column of ones is in front of them, and `shift[k]` is subtracted
 * from column k of `x`. Row i is multiplied by `weights[i]`, unless that is NULL. Returns a square matrix, where signs
 * of rows are arbitrary. Its columns are not finite from the first one on that has such values or too large ones. */
SEXP triangle_of(SEXP x, SEXP y, SEXP weights, SEXP above, SEXP shift);

#endif
