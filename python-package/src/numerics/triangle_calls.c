/* SPDX-License-Identifier: Apache-2.0 */
#include "calls.h"
#include "least_squares.h"
#include "svd.h"
#include "triangle.h"

static PyObject *triangle_size(PyObject *arguments, size_t size(size_t width)) {
  Py_ssize_t width;
  if (!PyArg_ParseTuple(arguments, "n", &width)) return NULL;
  return PyLong_FromSize_t(size((size_t)width));
}

PyObject *calls_triangle_size(PyObject *Py_UNUSED(module), PyObject *arguments) {
  return triangle_size(arguments, num_triangle_size);
}

PyObject *calls_triangle_message(PyObject *Py_UNUSED(module), PyObject *arguments) {
  return triangle_size(arguments, num_triangle_message);
}

PyObject *calls_triangle_open(PyObject *Py_UNUSED(module), PyObject *arguments) {
  PyObject *state;
  Py_ssize_t width;
  int centered;
  arrays of = {0};
  if (!PyArg_ParseTuple(arguments, "Onp", &state, &width, &centered)) return NULL;
  double *to = arrays_write(&of, state, num_triangle_size((size_t)width));
  if (!of.failed) num_triangle_open(to, (size_t)width, centered);
  return arrays_end(&of, Py_NewRef(Py_None));
}

PyObject *calls_triangle_add(PyObject *Py_UNUSED(module), PyObject *arguments) {
  PyObject *state, *x, *last, *roots;
  int ones;
  arrays of = {0};
  if (!PyArg_ParseTuple(arguments, "OOOOp", &state, &x, &last, &roots, &ones)) return NULL;
  num_rows of_x = arrays_rows(&of, x, roots, Py_None);
  num_triangle_rows rows = {.count = of_x.count,
                            .columns = of_x.width,
                            .row_step = of_x.width,
                            .column_step = 1,
                            .x = of_x.x,
                            .last = arrays_read_if_any(&of, last, of_x.count),
                            .roots = of_x.weights,
                            .ones = ones};
  size_t width = rows.ones + rows.columns + (rows.last != NULL);
  double *to = arrays_write(&of, state, num_triangle_size(width));
  Py_BEGIN_ALLOW_THREADS;
  if (!of.failed) num_triangle_add(to, &rows);
  Py_END_ALLOW_THREADS;
  return arrays_end(&of, Py_NewRef(Py_None));
}

PyObject *calls_triangle_close(PyObject *Py_UNUSED(module), PyObject *arguments) {
  PyObject *state;
  Py_ssize_t width;
  arrays of = {0};
  if (!PyArg_ParseTuple(arguments, "On", &state, &width)) return NULL;
  double *to = arrays_write(&of, state, num_triangle_size((size_t)width));
  if (!of.failed) num_triangle_close(to, (size_t)width);
  return arrays_end(&of, Py_NewRef(Py_None));
}

PyObject *calls_triangle_merge(PyObject *Py_UNUSED(module), PyObject *arguments) {
  PyObject *state, *other;
  Py_ssize_t width;
  arrays of = {0};
  if (!PyArg_ParseTuple(arguments, "OOn", &state, &other, &width)) return NULL;
  double *to = arrays_write(&of, state, num_triangle_size((size_t)width));
  const double *from = arrays_read(&of, other, num_triangle_message((size_t)width));
  if (!of.failed) num_triangle_merge(to, from, (size_t)width);
  return arrays_end(&of, Py_NewRef(Py_None));
}

PyObject *calls_triangle_finish(PyObject *Py_UNUSED(module), PyObject *arguments) {
  PyObject *message;
  Py_ssize_t width;
  arrays of = {0};
  if (!PyArg_ParseTuple(arguments, "On", &message, &width)) return NULL;
  double *to = arrays_write(&of, message, num_triangle_message((size_t)width));
  if (!of.failed) num_triangle_finish(to, (size_t)width);
  return arrays_end(&of, Py_NewRef(Py_None));
}

PyObject *calls_least_squares(PyObject *Py_UNUSED(module), PyObject *arguments) {
  PyObject *x, *order, *coefficients, *effects, *root, *unscaled;
  double tolerance;
  arrays of = {0};
  if (!PyArg_ParseTuple(arguments, "OdOOOOO", &x, &tolerance, &order, &coefficients, &effects,
                        &root, &unscaled))
    return NULL;
  num_rows rows = arrays_rows(&of, x, Py_None, Py_None);
  size_t columns = rows.width ? rows.width - 1 : 0;
  num_solution solution = {.order = arrays_write_integers(&of, order, columns),
                           .coefficients = arrays_write(&of, coefficients, columns),
                           .effects = arrays_write(&of, effects, columns),
                           .root = arrays_write(&of, root, columns * columns),
                           .unscaled = arrays_write(&of, unscaled, columns * columns)};
  double *scratch = calls_memory(&of, num_least_squares_scratch(rows.count, columns));
  Py_BEGIN_ALLOW_THREADS;
  if (!of.failed) num_least_squares(rows.x, rows.count, columns, tolerance, &solution, scratch);
  Py_END_ALLOW_THREADS;
  PyMem_Free(scratch);
  return arrays_end(&of, of.failed ? NULL : Py_BuildValue("nd", solution.rank, solution.rest));
}

PyObject *calls_svd(PyObject *Py_UNUSED(module), PyObject *arguments) {
  PyObject *matrix, *singular;
  arrays of = {0};
  if (!PyArg_ParseTuple(arguments, "OO", &matrix, &singular)) return NULL;
  size_t width = arrays_length(&of, singular);
  double *values = arrays_write(&of, singular, width);
  double *rows = arrays_write(&of, matrix, width * width);
  double *scratch = calls_memory(&of, num_svd_scratch(width));
  Py_BEGIN_ALLOW_THREADS;
  if (!of.failed) num_svd(rows, width, values, scratch);
  Py_END_ALLOW_THREADS;
  PyMem_Free(scratch);
  return arrays_end(&of, Py_NewRef(Py_None));
}
