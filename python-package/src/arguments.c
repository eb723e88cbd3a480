/* SPDX-License-Identifier: Apache-2.0 */
#include "arguments.h"

#include <limits.h>

#include "error.h"

static const char *const texts[ARGUMENTS_NAMES] = {
#define ARGUMENTS_TEXT(name, text) text,
    ARGUMENTS_MAP(ARGUMENTS_TEXT)
#undef ARGUMENTS_TEXT
};

/* ---- One argument ------------------------------------------------------------------------- */

/* Raises TypeError, which names the argument. */
static int refuse_type(const char *name, const char *wanted, PyObject *value) {
  PyObject *type = PyObject_GetAttrString((PyObject *)Py_TYPE(value), "__name__");
  if (type) PyErr_Format(PyExc_TypeError, "%s must be %s, not %U", name, wanted, type);
  Py_XDECREF(type);
  return -1;
}

int arguments_name_error(const char *name, const char *wanted, PyObject *value) {
  if (!PyErr_ExceptionMatches(PyExc_TypeError)) return -1;
  PyErr_Clear();
  return refuse_type(name, wanted, value);
}

int arguments_read_size(PyObject *value, const char *name, Py_ssize_t *size) {
  PyObject *whole = PyNumber_Index(value);
  if (whole == NULL) return arguments_name_error(name, "a whole number", value);
  *size = PyNumber_AsSsize_t(whole, NULL);
  Py_DECREF(whole);
  return 0;
}

int arguments_read_int(module_state *state, PyObject *value, const char *name, int *number) {
  Py_ssize_t read = 0;
  if (arguments_read_size(value, name, &read) < 0) return -1;
  *number = (int)read;
  if (read >= INT_MIN && read <= INT_MAX) return 0;
  error_invalid(state, "%s is %S: it must be from %d to %d", name, value, INT_MIN, INT_MAX);
  return -1;
}

int arguments_read_real(PyObject *value, const char *name, double *number) {
  *number = PyFloat_AsDouble(value);
  if (*number != -1 || !PyErr_Occurred()) return 0;
  return arguments_name_error(name, "a number", value);
}

int arguments_read_text(PyObject *value, const char *name, const char **text) {
  if (!PyUnicode_Check(value)) return refuse_type(name, "str", value);
  *text = PyUnicode_AsUTF8AndSize(value, NULL);
  return *text ? 0 : -1;
}

/* A string would count as true. */
static int read_flag(PyObject *value, const char *name, bool *flag) {
  if (PyUnicode_Check(value)) return refuse_type(name, "True or False", value);
  int truth = PyObject_IsTrue(value);
  *flag = truth > 0;
  return truth < 0 ? -1 : 0;
}

static int read_one(arguments *arguments, module_state *state, arguments_name name,
                    PyObject *value) {
  switch (name) {
  case ARGUMENTS_X:
    arguments->x = value;
    return 0;
  case ARGUMENTS_XS:
    arguments->xs = value;
    return 0;
  case ARGUMENTS_COUNTS:
    arguments->counts = value;
    return 0;
  case ARGUMENTS_OUT:
    arguments->out = value;
    return 0;
  case ARGUMENTS_OP:
    return arguments_read_text(value, texts[name], &arguments->op);
  case ARGUMENTS_DTYPE:
    return value == Py_None ? 0 : arguments_read_text(value, texts[name], &arguments->dtype);
  case ARGUMENTS_ROOT:
    return arguments_read_int(state, value, texts[name], &arguments->root);
  case ARGUMENTS_PEER:
    return arguments_read_int(state, value, texts[name], &arguments->peer);
  case ARGUMENTS_PRESCALE:
    return arguments_read_real(value, texts[name], &arguments->prescale);
  case ARGUMENTS_POSTSCALE:
    return arguments_read_real(value, texts[name], &arguments->postscale);
  case ARGUMENTS_RETURN_COUNTS:
    return read_flag(value, texts[name], &arguments->return_counts);
  default:
    return -1;
  }
}

/* ---- All of them -------------------------------------------------------------------------- */

int arguments_read(arguments *arguments, module_state *state, const arguments_form *form,
                   const arguments_given *given) {
  *arguments = (struct arguments){.out = Py_None, .op = "sum", .prescale = 1, .postscale = 1};
  if (given->count != form->count) {
    PyErr_Format(PyExc_TypeError, "%s takes %d arguments, not %zd", form->method, form->count,
                 given->count);
    return -1;
  }
  for (int i = 0; i < form->count; i++)
    if (read_one(arguments, state, form->names[i], given->values[i]) < 0) return -1;
  return 0;
}
