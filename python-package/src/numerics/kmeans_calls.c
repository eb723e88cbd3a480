/* SPDX-License-Identifier: Apache-2.0 */
#include "calls.h"
#include "kmeans.h"
#include "kmeans_start.h"

static PyObject *kmeans_none(arrays *of) {
  return arrays_end(of, Py_NewRef(Py_None));
}

PyObject *calls_kmeans_nearest(PyObject *Py_UNUSED(module), PyObject *arguments) {
  PyObject *x, *shift, *centers, *nearest, *best, *second;
  arrays of = {0};
  if (!PyArg_ParseTuple(arguments, "OOOOOO", &x, &shift, &centers, &nearest, &best, &second))
    return NULL;
  num_rows rows = arrays_rows(&of, x, Py_None, shift);
  size_t clusters = arrays_length(&of, centers);
  const double *middle = arrays_read(&of, centers, clusters * rows.width);
  int32_t *to = arrays_write_integers(&of, nearest, rows.count);
  double *first = arrays_write(&of, best, rows.count);
  double *other = arrays_write_if_any(&of, second, rows.count);
  double *scratch = calls_memory(&of, num_kmeans_scratch(clusters, rows.width));
  Py_BEGIN_ALLOW_THREADS;
  if (!of.failed) num_kmeans_nearest(&rows, middle, clusters, to, first, other, scratch);
  Py_END_ALLOW_THREADS;
  PyMem_Free(scratch);
  return kmeans_none(&of);
}

PyObject *calls_kmeans_distance(PyObject *Py_UNUSED(module), PyObject *arguments) {
  PyObject *x, *shift, *nearest, *centers, *squares;
  arrays of = {0};
  if (!PyArg_ParseTuple(arguments, "OOOOO", &x, &shift, &nearest, &centers, &squares)) return NULL;
  num_rows rows = arrays_rows(&of, x, Py_None, shift);
  const int32_t *near = arrays_read_integers(&of, nearest, rows.count);
  const double *middle = arrays_read(&of, centers, arrays_length(&of, centers) * rows.width);
  double *to = arrays_write(&of, squares, rows.count);
  double *scratch = calls_memory(&of, rows.width);
  Py_BEGIN_ALLOW_THREADS;
  if (!of.failed) num_kmeans_distance(&rows, near, middle, to, scratch);
  Py_END_ALLOW_THREADS;
  PyMem_Free(scratch);
  return kmeans_none(&of);
}

PyObject *calls_kmeans_sums(PyObject *Py_UNUSED(module), PyObject *arguments) {
  PyObject *x, *weights, *shift, *nearest, *sums;
  arrays of = {0};
  if (!PyArg_ParseTuple(arguments, "OOOOO", &x, &weights, &shift, &nearest, &sums)) return NULL;
  num_rows rows = arrays_rows(&of, x, weights, shift);
  const int32_t *near = arrays_read_integers(&of, nearest, rows.count);
  double *to =
      arrays_write(&of, sums, arrays_length(&of, sums) * (rows.width + NUM_KMEANS_COLUMNS));
  double *scratch = calls_memory(&of, rows.width);
  Py_BEGIN_ALLOW_THREADS;
  if (!of.failed) num_kmeans_sums(&rows, near, to, scratch);
  Py_END_ALLOW_THREADS;
  PyMem_Free(scratch);
  return kmeans_none(&of);
}

/* ---- Centers: arrays of shape (clusters, width) ------------------------------------------------------------------ */

PyObject *calls_kmeans_means(PyObject *Py_UNUSED(module), PyObject *arguments) {
  PyObject *sums, *centers;
  Py_ssize_t width;
  size_t empty = 0;
  arrays of = {0};
  if (!PyArg_ParseTuple(arguments, "OOn", &sums, &centers, &width)) return NULL;
  size_t clusters = arrays_length(&of, centers);
  const double *from = arrays_read(&of, sums, clusters * ((size_t)width + NUM_KMEANS_COLUMNS));
  double *to = arrays_write(&of, centers, clusters * (size_t)width);
  if (!of.failed) empty = num_kmeans_means(from, clusters, (size_t)width, to);
  return arrays_end(&of, of.failed ? NULL : PyLong_FromSize_t(empty));
}

PyObject *calls_kmeans_refill(PyObject *Py_UNUSED(module), PyObject *arguments) {
  PyObject *sums, *centers, *far;
  arrays of = {0};
  if (!PyArg_ParseTuple(arguments, "OOO", &sums, &far, &centers)) return NULL;
  num_rows rows = arrays_rows(&of, far, Py_None, Py_None);
  size_t clusters = arrays_length(&of, centers);
  const double *from = arrays_read(&of, sums, clusters * (rows.width + NUM_KMEANS_COLUMNS));
  double *to = arrays_write(&of, centers, clusters * rows.width);
  if (!of.failed) num_kmeans_refill(from, clusters, rows.width, rows.x, rows.count, to);
  return kmeans_none(&of);
}

PyObject *calls_kmeans_moves(PyObject *Py_UNUSED(module), PyObject *arguments) {
  PyObject *before, *centers, *moves;
  double shift = 0;
  arrays of = {0};
  if (!PyArg_ParseTuple(arguments, "OOO", &before, &centers, &moves)) return NULL;
  num_rows now = arrays_rows(&of, centers, Py_None, Py_None);
  const double *from = arrays_read(&of, before, now.count * now.width);
  double *to = arrays_write(&of, moves, now.count);
  if (!of.failed) shift = num_kmeans_moves(from, now.x, now.count, now.width, to);
  return arrays_end(&of, of.failed ? NULL : PyFloat_FromDouble(shift));
}

PyObject *calls_kmeans_half(PyObject *Py_UNUSED(module), PyObject *arguments) {
  PyObject *centers, *half;
  arrays of = {0};
  if (!PyArg_ParseTuple(arguments, "OO", &centers, &half)) return NULL;
  num_rows now = arrays_rows(&of, centers, Py_None, Py_None);
  double *to = arrays_write(&of, half, now.count);
  if (!of.failed) num_kmeans_half(now.x, now.count, now.width, to);
  return kmeans_none(&of);
}

PyObject *calls_kmeans_assign(PyObject *Py_UNUSED(module), PyObject *arguments) {
  PyObject *x, *weights, *shift, *centers, *moves, *half, *nearest, *upper, *lower, *delta;
  size_t changed = 0;
  arrays of = {0};
  if (!PyArg_ParseTuple(arguments, "OOOOOOOOOO", &x, &weights, &shift, &centers, &moves, &half,
                        &nearest, &upper, &lower, &delta))
    return NULL;
  num_rows rows = arrays_rows(&of, x, weights, shift);
  size_t clusters = arrays_length(&of, centers);
  const double *middle = arrays_read(&of, centers, clusters * rows.width);
  const double *moved = arrays_read(&of, moves, clusters), *near = arrays_read(&of, half, clusters);
  num_kmeans_bounds bounds = {arrays_write_integers(&of, nearest, rows.count),
                              arrays_write(&of, upper, rows.count),
                              arrays_write(&of, lower, rows.count)};
  double *to = arrays_write(&of, delta, clusters * (rows.width + NUM_KMEANS_COLUMNS));
  double *scratch = calls_memory(&of, num_kmeans_scratch(clusters, rows.width));
  Py_BEGIN_ALLOW_THREADS;
  if (!of.failed)
    changed = num_kmeans_assign(&rows, middle, clusters, moved, near, &bounds, to, scratch);
  Py_END_ALLOW_THREADS;
  PyMem_Free(scratch);
  return arrays_end(&of, of.failed ? NULL : PyLong_FromSize_t(changed));
}

/* ---- Start ------------------------------------------------------------------------------------------------------ */

PyObject *calls_kmeans_first(PyObject *Py_UNUSED(module), PyObject *arguments) {
  PyObject *x, *weights, *shift, *first;
  unsigned long long from, seed, rank;
  arrays of = {0};
  if (!PyArg_ParseTuple(arguments, "OOOKKKO", &x, &weights, &shift, &from, &seed, &rank, &first))
    return NULL;
  num_rows rows = arrays_rows(&of, x, weights, shift);
  double *to = arrays_write(&of, first, rows.width + 1);
  const num_random random = {.seed = seed, .stream = rank};
  if (!of.failed) num_kmeans_first(&rows, from, &random, to);
  return kmeans_none(&of);
}

PyObject *calls_kmeans_total(PyObject *Py_UNUSED(module), PyObject *arguments) {
  PyObject *squares, *weights;
  double total;
  arrays of = {0};
  if (!PyArg_ParseTuple(arguments, "OOd", &squares, &weights, &total)) return NULL;
  num_rows rows = {.count = arrays_length(&of, squares)};
  const double *from = arrays_read(&of, squares, rows.count);
  rows.weights = arrays_read_if_any(&of, weights, rows.count);
  if (!of.failed) num_kmeans_total(&rows, from, &total);
  return arrays_end(&of, of.failed ? NULL : PyFloat_FromDouble(total));
}

PyObject *calls_kmeans_draw(PyObject *Py_UNUSED(module), PyObject *arguments) {
  PyObject *squares, *weights, *drawn;
  unsigned long long from, seed, rank, round;
  double factor;
  size_t count = 0;
  arrays of = {0};
  if (!PyArg_ParseTuple(arguments, "OOdKKKKO", &squares, &weights, &factor, &from, &seed, &rank,
                        &round, &drawn))
    return NULL;
  num_rows rows = {.count = arrays_length(&of, squares)};
  const double *near = arrays_read(&of, squares, rows.count);
  rows.weights = arrays_read_if_any(&of, weights, rows.count);
  int32_t *to = arrays_write_integers(&of, drawn, rows.count);
  const num_random random = {.seed = seed, .stream = rank, .round = round};
  if (!of.failed) count = num_kmeans_draw(&rows, near, factor, from, &random, to);
  return arrays_end(&of, of.failed ? NULL : PyLong_FromSize_t(count));
}

PyObject *calls_kmeans_choose(PyObject *Py_UNUSED(module), PyObject *arguments) {
  PyObject *x, *weights, *centers;
  unsigned long long seed;
  arrays of = {0};
  if (!PyArg_ParseTuple(arguments, "OOKO", &x, &weights, &seed, &centers)) return NULL;
  num_rows rows = arrays_rows(&of, x, weights, Py_None);
  size_t clusters = arrays_length(&of, centers);
  double *to = arrays_write(&of, centers, clusters * rows.width);
  double *scratch = calls_memory(&of, num_kmeans_choose_scratch(rows.count, clusters, rows.width));
  Py_BEGIN_ALLOW_THREADS;
  if (!of.failed) num_kmeans_choose(&rows, clusters, seed, to, scratch);
  Py_END_ALLOW_THREADS;
  PyMem_Free(scratch);
  return kmeans_none(&of);
}
