/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SPARKRING_NUMERICS_ROWS_H
#define SPARKRING_NUMERICS_ROWS_H

#include <stddef.h>
#include <string.h>

/* Rows of numbers. A row is in one place, and the next row is after it. `weights` has a number for each row, or is NULL
 * for 1. `shift` has a number for each column, which is subtracted from the column, or is NULL for 0. */
typedef struct {
  size_t count, width;
  const double *x, *weights, *shift;
} num_rows;

static inline double num_rows_weight(const num_rows *rows, size_t row) {
  return rows->weights ? rows->weights[row] : 1;
}

/* Copies a row, without the shift. */
static inline void num_rows_read(const num_rows *rows, size_t row, double *to) {
  const double *from = rows->x + row * rows->width;
  if (!rows->shift)
    memcpy(to, from, rows->width * sizeof *to);
  else
    for (size_t k = 0; k < rows->width; k++) to[k] = from[k] - rows->shift[k];
}

#endif
