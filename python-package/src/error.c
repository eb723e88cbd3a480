/* SPDX-License-Identifier: Apache-2.0
 *
 * From a status to an exception. The class of TIMEOUT is TimeoutError, that of PEER_LOST is
 * PeerLostError, and so on. A class with a counterpart in Python derives from the counterpart as
 * well, so that `except ValueError` or `except TimeoutError` catch it. `status` belongs to the
 * class. `rank` and `errno` are None on the class and set on the exception where they are known.
 */
#include "error.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* "PEER_LOST" becomes "sparkring.PeerLostError". SystemError would hide Python's own. */
static void class_name(ring_status status, char name[64]) {
  size_t length = strlen(strcpy(name, "sparkring."));
  int upper = 1;
  for (const char *letter = ring_status_name(status); *letter; letter++) {
    if (*letter != '_') name[length++] = (char)(upper ? *letter : tolower(*letter));
    upper = *letter == '_';
  }
  strcpy(name + length, status == RING_SYSTEM ? "CallError" : "Error");
}

/* The counterpart in Python, or NULL. */
static PyObject *builtin_base(ring_status status) {
  switch (status) {
  case RING_INVALID:
    return PyExc_ValueError;
  case RING_TIMEOUT:
    return PyExc_TimeoutError;
  case RING_PEER_LOST:
    return PyExc_ConnectionError;
  case RING_NO_MEMORY:
    return PyExc_MemoryError;
  default:
    return NULL;
  }
}

static PyObject *make_base(void) {
  /* NOLINTNEXTLINE(clang-analyzer-optin.core.EnumCastOutOfRange): the name of what has none */
  const char *unknown = ring_status_name((ring_status)-1);
  PyObject *members =
      Py_BuildValue("{s:s,s:O,s:O}", "status", unknown, "rank", Py_None, "errno", Py_None);
  if (members == NULL) return NULL;
  PyObject *class = PyErr_NewExceptionWithDoc(
      "sparkring.RingError",
      "The base of all errors of sparkring.\n\n"
      "Attributes\n----------\n"
      "status : str\n    The name of the status in the C core, such as ``\"TIMEOUT\"``.\n"
      "rank : int or None\n    The rank at fault, where one is known.\n"
      "errno : int or None\n    The error code of the operating system, where there was one.\n",
      PyExc_RuntimeError, members);
  Py_DECREF(members);
  return class;
}

static PyObject *make_class(PyObject *base, ring_status status) {
  char name[64], doc[128];
  class_name(status, name);
  const char *text = ring_status_text(status);
  snprintf(doc, sizeof(doc), "%c%s.", toupper(text[0]), text + 1);
  PyObject *twin = builtin_base(status);
  PyObject *bases = twin ? PyTuple_Pack(2, base, twin) : PyTuple_Pack(1, base);
  PyObject *members = Py_BuildValue("{s:s}", "status", ring_status_name(status));
  PyObject *class = NULL;
  if (bases && members) class = PyErr_NewExceptionWithDoc(name, doc, bases, members);
  Py_XDECREF(bases);
  Py_XDECREF(members);
  return class;
}

static int add_class(PyObject *module, PyObject *class) {
  PyObject *name = PyObject_GetAttrString(class, "__name__");
  if (name == NULL) return -1;
  int failed = PyObject_SetAttr(module, name, class);
  Py_DECREF(name);
  return failed;
}

int error_add_classes(PyObject *module, module_state *state) {
  for (int status = 0; status < STATUS_COUNT; status++) {
    PyObject *base = state->errors[RING_OK];
    PyObject *class = status == RING_OK ? make_base() : make_class(base, (ring_status)status);
    state->errors[status] = class;
    if (class == NULL || add_class(module, class) < 0) return -1;
  }
  return 0;
}

static int set_number(PyObject *exception, const char *name, int number) {
  PyObject *value = PyLong_FromLong(number);
  if (value == NULL) return -1;
  int failed = PyObject_SetAttrString(exception, name, value);
  Py_DECREF(value);
  return failed;
}

/* Takes over the reference to message, which is NULL when making it has raised. */
static PyObject *throw_message(module_state *state, ring_status status, PyObject *message,
                               const ring_error *error) {
  if (message == NULL) return NULL;
  int known = status > RING_OK && status < STATUS_COUNT;
  PyObject *class = state->errors[known ? status : RING_OK];
  PyObject *exception = PyObject_CallFunctionObjArgs(class, message, NULL);
  Py_DECREF(message);
  if (exception == NULL) return NULL;
  int failed = 0;
  if (error && error->rank >= 0) failed = set_number(exception, "rank", error->rank);
  if (!failed && error && error->system_errno != 0)
    failed = set_number(exception, "errno", error->system_errno);
  if (!failed) PyErr_SetObject(class, exception);
  Py_DECREF(exception);
  return NULL;
}

PyObject *error_raise(module_state *state, ring_status status, const ring_error *error) {
  if (PyErr_Occurred()) return NULL;
  if (error && (error->status != status || error->message[0] == '\0')) error = NULL;
  const char *text = error ? error->message : ring_status_text(status);
  PyObject *message = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
  return throw_message(state, status, message, error);
}

PyObject *error_invalid(module_state *state, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  PyObject *message = PyUnicode_FromFormatV(format, arguments);
  va_end(arguments);
  return throw_message(state, RING_INVALID, message, NULL);
}
