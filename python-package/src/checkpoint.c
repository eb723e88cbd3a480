/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint.h"

#include "bindings/checkpoint.h"

PyObject *checkpoint_name(PyObject *module, PyObject *given) {
  (void)module;
  char name[RING_CHECKPOINT_NAME_BYTES];
  long long number = PyLong_AsLongLong(given);
  if (number == -1 && PyErr_Occurred()) return NULL;
  ring_checkpoint_name(number, name);
  return PyUnicode_FromString(name);
}

PyObject *checkpoint_number(PyObject *module, PyObject *given) {
  (void)module;
  const char *name = PyUnicode_AsUTF8AndSize(given, NULL);
  int64_t number = name ? ring_checkpoint_number(name) : -1;
  if (number >= 0) return PyLong_FromLongLong(number);
  PyErr_Clear(); /* a name that is no UTF-8 is another file */
  Py_RETURN_NONE;
}

PyObject *checkpoint_is_old(PyObject *module, PyObject *args) {
  (void)module;
  long long number, newest;
  if (!PyArg_ParseTuple(args, "LL:checkpoint_is_old", &number, &newest)) return NULL;
  return PyBool_FromLong(ring_checkpoint_is_old(number, newest));
}

PyObject *checkpoint_trailer(PyObject *module, PyObject *given) {
  (void)module;
  Py_buffer state;
  if (PyObject_GetBuffer(given, &state, PyBUF_SIMPLE) < 0) return NULL;
  uint8_t trailer[RING_CHECKPOINT_TRAILER_BYTES];
  bool sealed;
  Py_BEGIN_ALLOW_THREADS;
  sealed = ring_checkpoint_seal(state.buf, (size_t)state.len, trailer);
  Py_END_ALLOW_THREADS;
  PyBuffer_Release(&state);
  if (sealed) return PyBytes_FromStringAndSize((const char *)trailer, sizeof trailer);
  PyErr_SetString(PyExc_RuntimeError, "OpenSSL has no SHA-256");
  return NULL;
}

PyObject *checkpoint_length(PyObject *module, PyObject *given) {
  (void)module;
  Py_buffer file;
  if (PyObject_GetBuffer(given, &file, PyBUF_SIMPLE) < 0) return NULL;
  size_t length;
  bool whole;
  Py_BEGIN_ALLOW_THREADS;
  whole = ring_checkpoint_check(file.buf, (size_t)file.len, &length);
  Py_END_ALLOW_THREADS;
  PyBuffer_Release(&file);
  if (whole) return PyLong_FromSize_t(length);
  Py_RETURN_NONE;
}
