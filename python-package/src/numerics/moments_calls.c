/* SPDX-License-Identifier: Apache-2.0 */
#include "calls.h"
#include "moments.h"

PyObject *calls_moments_size(PyObject *Py_UNUSED(module), PyObject *arguments) {
  Py_ssize_t width;
  if (!PyArg_ParseTuple(arguments, "n", &width)) return NULL;
  return PyLong_FromSize_t(num_moments_size((size_t)width));
}

PyObject *calls_moments_open(PyObject *Py_UNUSED(module), PyObject *arguments) {
  PyObject *state;
  Py_ssize_t width;
  arrays of = {0};
  if (!PyArg_ParseTuple(arguments, "On", &state, &width)) return NULL;
  double *to = arrays_write(&of, state, num_moments_size((size_t)width));
  if (!of.failed) num_moments_open(to, (size_t)width);
  return arrays_end(&of, Py_NewRef(Py_None));
}

PyObject *calls_moments_add(PyObject *Py_UNUSED(module), PyObject *arguments) {
  PyObject *state, *x, *weights;
  arrays of = {0};
  if (!PyArg_ParseTuple(arguments, "OOO", &state, &x, &weights)) return NULL;
  num_rows rows = arrays_rows(&of, x, weights, Py_None);
  double *to = arrays_write(&of, state, num_moments_size(rows.width));
  double *scratch = calls_memory(&of, num_moments_scratch(rows.width));
  Py_BEGIN_ALLOW_THREADS;
  if (!of.failed)
    num_moments_add(to, rows.count, rows.width, rows.x, rows.width, 1, rows.weights, scratch);
  Py_END_ALLOW_THREADS;
  PyMem_Free(scratch);
  return arrays_end(&of, Py_NewRef(Py_None));
}

PyObject *calls_moments_merge(PyObject *Py_UNUSED(module), PyObject *arguments) {
  PyObject *state, *other;
  Py_ssize_t width;
  arrays of = {0};
  if (!PyArg_ParseTuple(arguments, "OOn", &state, &other, &width)) return NULL;
  size_t size = num_moments_size((size_t)width);
  double *to = arrays_write(&of, state, size);
  const double *from = arrays_read(&of, other, size);
  if (!of.failed) num_moments_merge(to, from, (size_t)width);
  return arrays_end(&of, Py_NewRef(Py_None));
}

PyObject *calls_moments_close(PyObject *Py_UNUSED(module), PyObject *arguments) {
  PyObject *state, *counts, *weights, *means, *squares;
  arrays of = {0};
  if (!PyArg_ParseTuple(arguments, "OOOOO", &state, &counts, &weights, &means, &squares))
    return NULL;
  size_t width = arrays_length(&of, counts);
  const double *from = arrays_read(&of, state, num_moments_size(width));
  double *to[] = {arrays_write(&of, counts, width), arrays_write(&of, weights, width),
                  arrays_write(&of, means, width), arrays_write(&of, squares, width)};
  if (!of.failed) num_moments_close(from, width, to[0], to[1], to[2], to[3]);
  return arrays_end(&of, Py_NewRef(Py_None));
}
