/* SPDX-License-Identifier: Apache-2.0
 *
 * Triangles of rows, and what follows from them, for R/tsqr.R: numerics/triangle.h.
 */
#ifndef SPARKRING_TRIANGLE_H
#define SPARKRING_TRIANGLE_H

#include <Rinternals.h>

/* A state of no rows, as doubles. */
SEXP triangle_open(SEXP width, SEXP centered);

/* A new state, with the rows of the double matrix `x`: after a 1 if there are `ones`, and before `last` unless it is NULL.
 * Row i is multiplied by `roots[i]`, unless that is NULL. */
SEXP triangle_add(SEXP state, SEXP x, SEXP last, SEXP roots, SEXP ones);

/* The message of a state, and that of the rows of two messages. */
SEXP triangle_close(SEXP state, SEXP width);
SEXP triangle_merge(SEXP message, SEXP other, SEXP width);

/* R of a message, a square matrix. */
SEXP triangle_finish(SEXP message, SEXP width);

/* Least squares of the double matrix `x`, whose last column is the response. A list: `rank`, `pivot`, `coefficients`,
 * `effects`, `root`, `unscaled` and `rest`, as in numerics/least_squares.h; columns count from 1. */
SEXP triangle_solve(SEXP x, SEXP tolerance);

/* The singular values `d` and the right vectors `v` of a square matrix of doubles: numerics/svd.h. */
SEXP triangle_svd(SEXP x);

#endif
