/* SPDX-License-Identifier: Apache-2.0 */
#include "envelope.h"

#include <string.h>

#include "bindings/envelope.h"

PyObject *envelope_trailer(PyObject *module, PyObject *given) {
  (void)module;
  uint8_t trailer[RING_ENVELOPE_TRAILER_BYTES];
  size_t length = PyLong_AsSize_t(given);
  if (length == (size_t)-1 && PyErr_Occurred()) return NULL;
  ring_envelope_seal(trailer, RING_ENVELOPE_PICKLE, length);
  return PyBytes_FromStringAndSize((const char *)trailer, sizeof trailer);
}

PyObject *envelope_failure(PyObject *module, PyObject *text) {
  (void)module;
  uint8_t envelope[RING_ENVELOPE_FAILURE_BYTES];
  const char *bytes = PyBytes_AsString(text);
  if (bytes == NULL) return NULL;
  size_t length = ring_envelope_fail(envelope, bytes, (size_t)PyBytes_Size(text));
  return PyBytes_FromStringAndSize((const char *)envelope, (Py_ssize_t)length);
}

static PyObject *list_of(const size_t *numbers, size_t count) {
  PyObject *list = PyList_New((Py_ssize_t)count);
  for (size_t i = 0; list && i < count; i++) {
    PyObject *number = PyLong_FromSize_t(numbers[i]);
    if (number == NULL || PyList_SetItem(list, (Py_ssize_t)i, number) < 0) Py_CLEAR(list);
  }
  return list;
}

PyObject *envelope_split(PyObject *module, PyObject *args) {
  (void)module;
  Py_buffer received;
  Py_ssize_t count;
  if (!PyArg_ParseTuple(args, "y*n:envelope_split", &received, &count)) return NULL;
  size_t *starts = PyMem_Calloc((size_t)count + 1, sizeof *starts);
  PyObject *result = NULL;
  if (starts == NULL)
    PyErr_NoMemory();
  else if (ring_envelope_split(received.buf, (size_t)received.len, (size_t)count, starts))
    result = list_of(starts, (size_t)count + 1);
  else
    result = Py_BuildValue(""); /* None */
  PyMem_Free(starts);
  PyBuffer_Release(&received);
  return result;
}

PyObject *envelope_check(PyObject *module, PyObject *args) {
  (void)module;
  Py_buffer envelope;
  int rank;
  if (!PyArg_ParseTuple(args, "y*i:envelope_check", &envelope, &rank)) return NULL;
  char text[RING_ENVELOPE_TEXT_BYTES] = "";
  ring_envelope_check(envelope.buf, (size_t)envelope.len, RING_ENVELOPE_PICKLE, rank, text);
  PyBuffer_Release(&envelope);
  if (text[0] == '\0') Py_RETURN_NONE;
  return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
}
