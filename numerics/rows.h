/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SPARKRING_NUMERICS_ROWS_H
#define SPARKRING_NUMERICS_ROWS_H

#include <stddef.h>

/* Rows of numbers. A row is in one place, and the next row is after it. `weights` has a number for each row, or is NULL
 * for 1. `shift` has a number for each column, which is subtracted from the column, or is NULL for 0. */
typedef struct {
  size_t count, width;
  const double *x, *weights, *shift;
} num_rows;

#endif
