/* SPDX-License-Identifier: Apache-2.0 */
#include "arrays.h"

#include <string.h>

/* The memory of an array, whose items have the format `format`, one letter. `dimensions`: 0 for any. */
static const Py_buffer *arrays_take(arrays *of, PyObject *object, char format, int dimensions,
                                    bool writable) {
  if (of->failed) return NULL;
  Py_buffer *view = &of->views[of->count];
  of->failed = true;
  int flags = PyBUF_ND | PyBUF_FORMAT | (writable ? PyBUF_WRITABLE : 0);
  if (PyObject_GetBuffer(object, view, flags) < 0) return NULL;
  of->count++;
  bool same = view->format && view->format[0] == format && view->format[1] == 0;
  if (!same || (dimensions && view->ndim != dimensions))
    return PyErr_Format(PyExc_ValueError,
                        "an array of %d dimensions and the format %s does not fit", view->ndim,
                        view->format ? view->format : "B"),
           NULL;
  of->failed = false;
  return view;
}

static void *arrays_memory(arrays *of, PyObject *object, char format, size_t count, bool writable) {
  const Py_buffer *view = arrays_take(of, object, format, 0, writable);
  if (!view) return NULL;
  if (count == (size_t)(view->len / view->itemsize)) return view->buf;
  of->failed = true;
  PyErr_Format(PyExc_ValueError, "an array has %zd items and not %zu", view->len / view->itemsize,
               count);
  return NULL;
}

const double *arrays_read(arrays *of, PyObject *object, size_t count) {
  return arrays_memory(of, object, 'd', count, false);
}

const double *arrays_read_if_any(arrays *of, PyObject *object, size_t count) {
  return object == Py_None ? NULL : arrays_read(of, object, count);
}

double *arrays_write(arrays *of, PyObject *object, size_t count) {
  return arrays_memory(of, object, 'd', count, true);
}

double *arrays_write_if_any(arrays *of, PyObject *object, size_t count) {
  return object == Py_None ? NULL : arrays_write(of, object, count);
}

const int32_t *arrays_read_integers(arrays *of, PyObject *object, size_t count) {
  return arrays_memory(of, object, 'i', count, false);
}

int32_t *arrays_write_integers(arrays *of, PyObject *object, size_t count) {
  return arrays_memory(of, object, 'i', count, true);
}

num_rows arrays_rows(arrays *of, PyObject *x, PyObject *weights, PyObject *shift) {
  num_rows rows = {0};
  const Py_buffer *view = arrays_take(of, x, 'd', 2, false);
  if (!view) return rows;
  rows.count = (size_t)view->shape[0], rows.width = (size_t)view->shape[1], rows.x = view->buf;
  rows.weights = arrays_read_if_any(of, weights, rows.count);
  rows.shift = arrays_read_if_any(of, shift, rows.width);
  return rows;
}

size_t arrays_length(arrays *of, PyObject *object) {
  Py_ssize_t length = of->failed ? 0 : PyObject_Length(object);
  if (length < 0) of->failed = true;
  return length < 0 ? 0 : (size_t)length;
}

PyObject *arrays_end(arrays *of, PyObject *result) {
  while (of->count > 0) PyBuffer_Release(&of->views[--of->count]);
  if (of->failed) Py_CLEAR(result);
  return result;
}
