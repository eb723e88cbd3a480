/* SPDX-License-Identifier: Apache-2.0 */
#include "calls.h"
#include "glm.h"

/* A function of a link or a family, and of an array. */
typedef void glm_function(int kind, size_t count, const double *from, double *to);

static PyObject *glm_call(PyObject *arguments, glm_function *function) {
  PyObject *from, *to;
  int kind;
  arrays of = {0};
  if (!PyArg_ParseTuple(arguments, "iOO", &kind, &from, &to)) return NULL;
  size_t count = arrays_length(&of, from);
  const double *x = arrays_read(&of, from, count);
  double *found = arrays_write(&of, to, count);
  Py_BEGIN_ALLOW_THREADS;
  if (!of.failed) function(kind, count, x, found);
  Py_END_ALLOW_THREADS;
  return arrays_end(&of, Py_NewRef(Py_None));
}

static void glm_eta(int link, size_t count, const double *mu, double *eta) {
  num_link_eta((num_link)link, count, mu, eta);
}

static void glm_mean(int link, size_t count, const double *eta, double *mu) {
  num_link_mean((num_link)link, count, eta, mu);
}

static void glm_slope(int link, size_t count, const double *eta, double *slope) {
  num_link_slope((num_link)link, count, eta, slope);
}

static void glm_variance(int family, size_t count, const double *mu, double *variance) {
  num_family_variance((num_family)family, count, mu, variance);
}

PyObject *calls_glm_eta(PyObject *Py_UNUSED(module), PyObject *arguments) {
  return glm_call(arguments, glm_eta);
}

PyObject *calls_glm_mean(PyObject *Py_UNUSED(module), PyObject *arguments) {
  return glm_call(arguments, glm_mean);
}

PyObject *calls_glm_slope(PyObject *Py_UNUSED(module), PyObject *arguments) {
  return glm_call(arguments, glm_slope);
}

PyObject *calls_glm_variance(PyObject *Py_UNUSED(module), PyObject *arguments) {
  return glm_call(arguments, glm_variance);
}

PyObject *calls_glm_deviance(PyObject *Py_UNUSED(module), PyObject *arguments) {
  PyObject *y, *mu, *weights, *deviance;
  int family;
  arrays of = {0};
  if (!PyArg_ParseTuple(arguments, "iOOOO", &family, &y, &mu, &weights, &deviance)) return NULL;
  size_t count = arrays_length(&of, y);
  const double *response = arrays_read(&of, y, count), *mean = arrays_read(&of, mu, count);
  const double *weight = arrays_read(&of, weights, count);
  double *to = arrays_write(&of, deviance, count);
  Py_BEGIN_ALLOW_THREADS;
  if (!of.failed) num_family_deviance((num_family)family, count, response, mean, weight, to);
  Py_END_ALLOW_THREADS;
  return arrays_end(&of, Py_NewRef(Py_None));
}

PyObject *calls_glm_predict(PyObject *Py_UNUSED(module), PyObject *arguments) {
  PyObject *x, *coefficients, *offset, *eta;
  double intercept;
  arrays of = {0};
  if (!PyArg_ParseTuple(arguments, "OdOOO", &x, &intercept, &coefficients, &offset, &eta))
    return NULL;
  num_rows rows = arrays_rows(&of, x, offset, coefficients);
  double *to = arrays_write(&of, eta, rows.count);
  Py_BEGIN_ALLOW_THREADS;
  if (!of.failed)
    num_glm_predict(rows.count, rows.width, rows.x, rows.width, 1, intercept, rows.shift,
                    rows.weights, to);
  Py_END_ALLOW_THREADS;
  return arrays_end(&of, Py_NewRef(Py_None));
}

PyObject *calls_glm_add(PyObject *Py_UNUSED(module), PyObject *arguments) {
  PyObject *state, *x;
  arrays of = {0};
  if (!PyArg_ParseTuple(arguments, "OO", &state, &x)) return NULL;
  size_t count = arrays_length(&of, x);
  const double *from = arrays_read(&of, x, count);
  double *to = arrays_write(&of, state, 2);
  if (!of.failed) num_glm_add(to, count, from);
  return arrays_end(&of, Py_NewRef(Py_None));
}

PyObject *calls_glm_total(PyObject *Py_UNUSED(module), PyObject *arguments) {
  PyObject *state;
  arrays of = {0};
  if (!PyArg_ParseTuple(arguments, "O", &state)) return NULL;
  const double *from = arrays_read(&of, state, 2);
  return arrays_end(&of, of.failed ? NULL : PyFloat_FromDouble(num_glm_total(from)));
}
