/* SPDX-License-Identifier: Apache-2.0
 *
 * NumPy arrays as arguments: contiguous memory of doubles and of int32. The callers are functions of sparkring.models,
 * so an array that does not fit is a fault of ours and a ValueError.
 */
#ifndef SPARKRING_ARRAYS_H
#define SPARKRING_ARRAYS_H

#include "../python_api.h"
#include <stdbool.h>
#include <stdint.h>

#include "rows.h"

/* The arrays of a call. `failed`: an exception is set. */
typedef struct {
  Py_buffer views[12];
  int count;
  bool failed;
} arrays;

/* The memory of `count` doubles, of which the call reads or writes. NULL for None, where there may be none. */
const double *arrays_read(arrays *of, PyObject *object, size_t count);
const double *arrays_read_if_any(arrays *of, PyObject *object, size_t count);
double *arrays_write(arrays *of, PyObject *object, size_t count);
double *arrays_write_if_any(arrays *of, PyObject *object, size_t count);

/* The same for int32. */
const int32_t *arrays_read_integers(arrays *of, PyObject *object, size_t count);
int32_t *arrays_write_integers(arrays *of, PyObject *object, size_t count);

/* The rows of an array of two dimensions. */
num_rows arrays_rows(arrays *of, PyObject *x, PyObject *weights, PyObject *shift);

/* The length of an array along its first dimension; 0 with an exception. */
size_t arrays_length(arrays *of, PyObject *object);

/* Releases the arrays. Returns `result`, or NULL if the call failed. */
PyObject *arrays_end(arrays *of, PyObject *result);

#endif
