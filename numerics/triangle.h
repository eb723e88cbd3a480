/* SPDX-License-Identifier: Apache-2.0
 *
 * The triangle R of a QR decomposition of many rows, by Householder reflections (Golub and Van Loan, Matrix
 * Computations, section 5.2), which squares nothing. Rows are taken in blocks that stay in the cache: a reflection of a
 * block touches one row of R and the block. So the rows are read once. Triangles of panels of blocks are reduced in the
 * same way, so that rounding errors grow with the number of panels. Ranks reduce their triangles in pairs (TSQR: J.
 * Demmel, L. Grigori, M. Hoemmen and J. Langou, 2012, SIAM Journal on Scientific Computing 34(1)).
 *
 * A state is closed after its last row. It begins with its message, which is all that other ranks need.
 */
#ifndef SPARKRING_NUMERICS_TRIANGLE_H
#define SPARKRING_NUMERICS_TRIANGLE_H

#include <stdbool.h>
#include <stddef.h>

/* The numbers of a message: R, by rows, a shift for each column, and the number of rows. */
size_t num_triangle_message(size_t width);

/* The numbers of a state. */
size_t num_triangle_size(size_t width);

/* A state of no rows. `centered`: the first column is 1 in each row. From the other columns the means of the first rows
 * are then subtracted, so that columns far from 0 keep their digits. num_triangle_finish() adds them again. */
void num_triangle_open(double *state, size_t width, bool centered);

/* Rows: a 1 if there are `ones`; `columns` numbers, of which number k of row i is x[i * row_step + k * column_step]; and
 * last[i], unless `last` is NULL. A row is multiplied by roots[i], the root of its weight, or by 1 if `roots` is NULL.
 * Rows with the root 0 do not count, and may have any values. */
typedef struct {
  size_t count, columns, row_step, column_step;
  const double *x, *last, *roots;
  bool ones;
} num_triangle_rows;

/* Adds rows. Columns of R are not finite from the first one on that has such values or too large ones. */
void num_triangle_add(double *state, const num_triangle_rows *rows);

void num_triangle_close(double *state, size_t width);

/* Adds the rows of another state, whose message is `other`. Both have been closed. */
void num_triangle_merge(double *state, const double *other, size_t width);

/* Makes R of a message that of the columns without a shift, on a diagonal without negative numbers. So R does not depend
 * on the number of ranks, up to rounding. */
void num_triangle_finish(double *message, size_t width);

#endif
