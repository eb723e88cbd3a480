/* SPDX-License-Identifier: Apache-2.0
 *
 * Arrays of records have the shape (records, size).
 */
#include "calls.h"
#include "cox.h"
#include "cox_clusters.h"
#include "cox_newton.h"
#include "cox_times.h"
#include "positive.h"

static PyObject *cox_none(arrays *of) {
  return arrays_end(of, Py_NewRef(Py_None));
}

PyObject *calls_cox_size(PyObject *Py_UNUSED(module), PyObject *arguments) {
  Py_ssize_t width;
  if (!PyArg_ParseTuple(arguments, "n", &width)) return NULL;
  return PyLong_FromSize_t(num_cox_size((size_t)width));
}

/* ---- Records ---------------------------------------------------------------------------------------------------- */

static num_cox_columns cox_columns(const num_rows *rows) {
  return (num_cox_columns){.count = rows->count,
                           .width = rows->width,
                           .row_step = rows->width,
                           .column_step = 1,
                           .x = rows->x};
}

PyObject *calls_cox_distances(PyObject *Py_UNUSED(module), PyObject *arguments) {
  PyObject *x, *weights, *means, *sums;
  arrays of = {0};
  if (!PyArg_ParseTuple(arguments, "OOOO", &x, &weights, &means, &sums)) return NULL;
  num_rows rows = arrays_rows(&of, x, weights, means);
  num_cox_columns columns = cox_columns(&rows);
  double *to = arrays_write(&of, sums, rows.width);
  if (!of.failed) num_cox_distances(&columns, rows.weights, rows.shift, to);
  return cox_none(&of);
}

/* Memory of `count` integers, for PyMem_Free(). */
static int32_t *cox_integers(arrays *of, size_t count) {
  void *memory = calls_memory(of, count / 2 + 1);
  return memory;
}

/* The order of keys, for PyMem_Free(). */
static int32_t *cox_order(arrays *of, const num_cox_keys *keys) {
  int32_t *order = cox_integers(of, 2 * keys->count);
  if (!of->failed) num_cox_order(keys, order, order + keys->count);
  return order;
}

PyObject *calls_cox_pack(PyObject *Py_UNUSED(module), PyObject *arguments) {
  PyObject *fields, *x, *means, *scales, *all;
  arrays of = {0};
  if (!PyArg_ParseTuple(arguments, "OOOOO", &fields, &x, &means, &scales, &all)) return NULL;
  num_rows rows = arrays_rows(&of, x, Py_None, means);
  num_cox_columns columns = cox_columns(&rows);
  size_t count = arrays_length(&of, all);
  const double *scale = arrays_read(&of, scales, rows.width);
  num_cox_keys keys = {.count = count, .step = 1, .gap = count};
  keys.all = arrays_read(&of, fields, NUM_COX_X * count);
  double *to = arrays_write(&of, all, num_cox_size(rows.width) * count);
  int32_t *order = cox_order(&of, &keys);
  if (!of.failed) num_cox_pack(to, count, keys.all, &columns, rows.shift, scale, order);
  PyMem_Free(order);
  return cox_none(&of);
}

/* The rows of an array, whose keys are their first number, or their first two. */
static num_cox_keys cox_keys(arrays *of, PyObject *array, Py_ssize_t numbers) {
  num_rows rows = arrays_rows(of, array, Py_None, Py_None);
  return (num_cox_keys){
      .count = rows.count, .step = rows.width, .gap = numbers == 2, .all = rows.x};
}

PyObject *calls_cox_sort(PyObject *Py_UNUSED(module), PyObject *arguments) {
  PyObject *rows, *sorted;
  Py_ssize_t numbers;
  arrays of = {0};
  if (!PyArg_ParseTuple(arguments, "OnO", &rows, &numbers, &sorted)) return NULL;
  num_cox_keys keys = cox_keys(&of, rows, numbers);
  double *to = arrays_write(&of, sorted, keys.step * keys.count);
  int32_t *order = cox_order(&of, &keys);
  if (!of.failed) num_cox_sort(keys.all, keys.step, keys.count, order, to);
  PyMem_Free(order);
  return cox_none(&of);
}

PyObject *calls_cox_propose(PyObject *Py_UNUSED(module), PyObject *arguments) {
  PyObject *rows, *proposals;
  Py_ssize_t numbers;
  size_t count = 0;
  arrays of = {0};
  if (!PyArg_ParseTuple(arguments, "OnO", &rows, &numbers, &proposals)) return NULL;
  num_cox_keys keys = cox_keys(&of, rows, numbers);
  double *to = arrays_write(&of, proposals, NUM_COX_PROPOSALS * NUM_COX_PROPOSAL);
  if (!of.failed) count = num_cox_propose(&keys, to);
  return arrays_end(&of, of.failed ? NULL : PyLong_FromSize_t(count));
}

PyObject *calls_cox_divide(PyObject *Py_UNUSED(module), PyObject *arguments) {
  PyObject *rows, *proposals, *counts;
  Py_ssize_t numbers;
  arrays of = {0};
  if (!PyArg_ParseTuple(arguments, "OnOO", &rows, &numbers, &proposals, &counts)) return NULL;
  num_cox_keys keys = cox_keys(&of, rows, numbers);
  num_rows of_ranks = arrays_rows(&of, proposals, Py_None, Py_None);
  size_t ranks = arrays_length(&of, counts);
  double *to = arrays_write(&of, counts, ranks);
  if (!of.failed) num_cox_divide(&keys, of_ranks.x, of_ranks.count, ranks, to);
  return cox_none(&of);
}

PyObject *calls_cox_carry(PyObject *Py_UNUSED(module), PyObject *arguments) {
  PyObject *edges, *carried;
  Py_ssize_t rank;
  int back;
  arrays of = {0};
  if (!PyArg_ParseTuple(arguments, "OnpO", &edges, &rank, &back, &carried)) return NULL;
  num_rows rows = arrays_rows(&of, edges, Py_None, Py_None);
  size_t size = arrays_length(&of, carried);
  double *to = arrays_write(&of, carried, size);
  if (!of.failed) num_cox_carry(rows.x, rows.count, (size_t)rank, size, back, to);
  return cox_none(&of);
}

/* ---- Times ------------------------------------------------------------------------------------------------------ */

PyObject *calls_cox_times_sum(PyObject *Py_UNUSED(module), PyObject *arguments) {
  PyObject *times;
  double sum = 0;
  arrays of = {0};
  if (!PyArg_ParseTuple(arguments, "O", &times)) return NULL;
  size_t count = arrays_length(&of, times);
  const double *from = arrays_read(&of, times, count);
  if (!of.failed) sum = num_cox_times_sum(from, count);
  return arrays_end(&of, of.failed ? NULL : PyFloat_FromDouble(sum));
}

PyObject *calls_cox_chains(PyObject *Py_UNUSED(module), PyObject *arguments) {
  PyObject *times, *firsts;
  double mean;
  arrays of = {0};
  if (!PyArg_ParseTuple(arguments, "OdO", &times, &mean, &firsts)) return NULL;
  size_t count = arrays_length(&of, times);
  const double *from = arrays_read(&of, times, count);
  double *to = arrays_write(&of, firsts, count);
  if (!of.failed) num_cox_chains(from, count, mean, to);
  return cox_none(&of);
}

PyObject *calls_cox_chain_before(PyObject *Py_UNUSED(module), PyObject *arguments) {
  PyObject *edges;
  double mean, found = 0;
  arrays of = {0};
  if (!PyArg_ParseTuple(arguments, "Od", &edges, &mean)) return NULL;
  size_t count = arrays_length(&of, edges);
  const double *from = arrays_read(&of, edges, count * NUM_COX_EDGE);
  if (!of.failed) found = num_cox_chain_before(from, count, mean);
  return arrays_end(&of, of.failed ? NULL : PyFloat_FromDouble(found));
}

/* ---- Passes ----------------------------------------------------------------------------------------------------- */

typedef struct {
  PyObject *all, *risks, *rows, *state;
  Py_ssize_t width;
  int efron, details;
} cox_given;

#define COX_GIVEN(given)                                                                           \
  &(given).all, &(given).width, &(given).efron, &(given).details, &(given).risks, &(given).rows,   \
      &(given).state

/* The pass of a call, whose first arguments are those of COX_GIVEN(): "OnppOOO". */
static num_cox_pass cox_open(arrays *of, const cox_given *given) {
  num_cox_pass pass = {.efron = given->efron, .details = given->details};
  size_t width = (size_t)given->width;
  pass.records.width = width;
  pass.records.count = arrays_length(of, given->all);
  pass.records.all = arrays_read(of, given->all, pass.records.count * num_cox_size(width));
  pass.risks = arrays_write(of, given->risks, pass.records.count);
  pass.groups = arrays_length(of, given->rows);
  pass.rows = arrays_write(of, given->rows, pass.groups * num_cox_row(width, given->details));
  pass.state = arrays_write(of, given->state, num_cox_state(width));
  return pass;
}

PyObject *calls_cox_groups(PyObject *Py_UNUSED(module), PyObject *arguments) {
  PyObject *all;
  Py_ssize_t width;
  size_t groups = 0;
  arrays of = {0};
  if (!PyArg_ParseTuple(arguments, "On", &all, &width)) return NULL;
  num_cox_records records = {.width = (size_t)width, .count = arrays_length(&of, all)};
  records.all = arrays_read(&of, all, records.count * num_cox_size(records.width));
  if (!of.failed) groups = num_cox_groups(&records);
  return arrays_end(&of, of.failed ? NULL : PyLong_FromSize_t(groups));
}

PyObject *calls_cox_row(PyObject *Py_UNUSED(module), PyObject *arguments) {
  Py_ssize_t width;
  int details;
  if (!PyArg_ParseTuple(arguments, "np", &width, &details)) return NULL;
  return PyLong_FromSize_t(num_cox_row((size_t)width, details));
}

PyObject *calls_cox_state(PyObject *Py_UNUSED(module), PyObject *arguments) {
  Py_ssize_t width;
  if (!PyArg_ParseTuple(arguments, "n", &width)) return NULL;
  return PyLong_FromSize_t(num_cox_state((size_t)width));
}

PyObject *calls_cox_risks(PyObject *Py_UNUSED(module), PyObject *arguments) {
  PyObject *coefficients;
  cox_given given;
  arrays of = {0};
  if (!PyArg_ParseTuple(arguments, "OnppOOOO", COX_GIVEN(given), &coefficients)) return NULL;
  num_cox_pass pass = cox_open(&of, &given);
  const double *beta = arrays_read(&of, coefficients, pass.records.width);
  Py_BEGIN_ALLOW_THREADS;
  if (!of.failed) num_cox_risks(&pass, 0, pass.records.count, beta);
  Py_END_ALLOW_THREADS;
  return cox_none(&of);
}

PyObject *calls_cox_edge(PyObject *Py_UNUSED(module), PyObject *arguments) {
  PyObject *edge;
  cox_given given;
  int back;
  arrays of = {0};
  if (!PyArg_ParseTuple(arguments, "OnppOOOpO", COX_GIVEN(given), &back, &edge)) return NULL;
  num_cox_pass pass = cox_open(&of, &given);
  double *to = arrays_write(&of, edge, back || pass.details ? 3 + pass.records.width : 3);
  if (!of.failed) (back ? num_cox_edge_back : num_cox_edge_forward)(&pass, to);
  return cox_none(&of);
}

PyObject *calls_cox_back(PyObject *Py_UNUSED(module), PyObject *arguments) {
  PyObject *carried;
  cox_given given;
  arrays of = {0};
  if (!PyArg_ParseTuple(arguments, "OnppOOOO", COX_GIVEN(given), &carried)) return NULL;
  num_cox_pass pass = cox_open(&of, &given);
  const double *beyond = arrays_read(&of, carried, 1 + pass.records.width);
  Py_BEGIN_ALLOW_THREADS;
  if (!of.failed) num_cox_back(&pass, 0, pass.records.count, beyond);
  Py_END_ALLOW_THREADS;
  return cox_none(&of);
}

PyObject *calls_cox_forward(PyObject *Py_UNUSED(module), PyObject *arguments) {
  PyObject *carried, *sums;
  cox_given given;
  arrays of = {0};
  if (!PyArg_ParseTuple(arguments, "OnppOOOOO", COX_GIVEN(given), &carried, &sums)) return NULL;
  num_cox_pass pass = cox_open(&of, &given);
  size_t width = pass.records.width;
  const double *beyond = arrays_read(&of, carried, pass.details ? 1 + width : 1);
  double *to = arrays_write(&of, sums, num_cox_sums(width));
  Py_BEGIN_ALLOW_THREADS;
  if (!of.failed) {
    num_cox_forward(&pass, 0, pass.records.count, beyond);
    num_cox_end(&pass, to);
  }
  Py_END_ALLOW_THREADS;
  return cox_none(&of);
}

PyObject *calls_cox_residuals(PyObject *Py_UNUSED(module), PyObject *arguments) {
  PyObject *carried, *residuals;
  cox_given given;
  arrays of = {0};
  if (!PyArg_ParseTuple(arguments, "OnppOOOOO", COX_GIVEN(given), &carried, &residuals))
    return NULL;
  num_cox_pass pass = cox_open(&of, &given);
  size_t size = 1 + pass.records.width;
  double *sums = arrays_write(&of, carried, size);
  double *to = arrays_write(&of, residuals, size * pass.records.count);
  if (!of.failed) num_cox_residuals(&pass, sums, to);
  return cox_none(&of);
}

/* ---- Clusters --------------------------------------------------------------------------------------------------- */

PyObject *calls_cox_clusters(PyObject *Py_UNUSED(module), PyObject *arguments) {
  PyObject *given, *clusters;
  size_t count = 0;
  arrays of = {0};
  if (!PyArg_ParseTuple(arguments, "OO", &given, &clusters)) return NULL;
  num_rows rows = arrays_rows(&of, given, Py_None, Py_None);
  double *to = arrays_write(&of, clusters, rows.count * rows.width);
  if (!of.failed) count = num_cox_clusters(rows.x, rows.count, rows.width - 1, to);
  return arrays_end(&of, of.failed ? NULL : PyLong_FromSize_t(count));
}

PyObject *calls_cox_influence(PyObject *Py_UNUSED(module), PyObject *arguments) {
  PyObject *clusters, *matrix, *sums;
  arrays of = {0};
  if (!PyArg_ParseTuple(arguments, "OOO", &clusters, &matrix, &sums)) return NULL;
  num_rows rows = arrays_rows(&of, clusters, Py_None, Py_None);
  size_t width = rows.width - 1;
  const double *factor = arrays_read_if_any(&of, matrix, width * width);
  double *to = arrays_write(&of, sums, width + width * width);
  double *scratch = calls_memory(&of, num_cox_influence_scratch(width));
  if (!of.failed) num_cox_influence(rows.x, rows.count, width, factor, to, scratch);
  PyMem_Free(scratch);
  return cox_none(&of);
}

/* ---- Newton's iterations ---------------------------------------------------------------------------------------- */

PyObject *calls_cox_step(PyObject *Py_UNUSED(module), PyObject *arguments) {
  PyObject *sums, *kept, *step, *variance;
  int first;
  double tolerance, test = 0;
  arrays of = {0};
  if (!PyArg_ParseTuple(arguments, "OpdOOO", &sums, &first, &tolerance, &kept, &step, &variance))
    return NULL;
  size_t width = arrays_length(&of, step);
  const double *from = arrays_read(&of, sums, num_cox_sums(width));
  int32_t *columns = arrays_write_integers(&of, kept, width);
  double *to = arrays_write(&of, step, width);
  double *inverse = arrays_write(&of, variance, width * width);
  double *scratch = calls_memory(&of, num_positive_scratch(width));
  if (!of.failed) test = num_cox_step(from, width, first, tolerance, columns, to, inverse, scratch);
  PyMem_Free(scratch);
  return arrays_end(&of, of.failed ? NULL : PyFloat_FromDouble(test));
}

PyObject *calls_cox_change(PyObject *Py_UNUSED(module), PyObject *arguments) {
  double before, now;
  if (!PyArg_ParseTuple(arguments, "dd", &before, &now)) return NULL;
  return PyFloat_FromDouble(num_cox_change(before, now));
}

PyObject *calls_positive_wald(PyObject *Py_UNUSED(module), PyObject *arguments) {
  PyObject *covariance, *values;
  double tolerance, found = 0;
  arrays of = {0};
  if (!PyArg_ParseTuple(arguments, "OOd", &covariance, &values, &tolerance)) return NULL;
  size_t width = arrays_length(&of, values);
  const double *matrix = arrays_read(&of, covariance, width * width);
  const double *from = arrays_read(&of, values, width);
  double *scratch = calls_memory(&of, num_positive_scratch(width));
  int32_t *kept = cox_integers(&of, width);
  if (!of.failed) found = num_positive_wald(matrix, width, from, tolerance, kept, scratch);
  PyMem_Free(scratch);
  PyMem_Free(kept);
  return arrays_end(&of, of.failed ? NULL : PyFloat_FromDouble(found));
}
