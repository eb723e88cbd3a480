/* SPDX-License-Identifier: Apache-2.0
 *
 * The arguments of the collective methods. CPython passes them as an array, with named arguments
 * last (vectorcall), and this file reads the array: a tuple and a dict for
 * PyArg_ParseTupleAndKeywords would take longer than a short call of the core. All methods share
 * the interned names, so the address usually identifies a name.
 */
#ifndef SPARKRING_ARGUMENTS_H
#define SPARKRING_ARGUMENTS_H

#include <stdbool.h>

#include "state.h"

/* The given arguments, or else the defaults. Borrowed, strings included. */
typedef struct arguments {
  PyObject *x, *xs, *counts;
  PyObject *out;     /* None */
  const char *op;    /* "sum" */
  const char *dtype; /* NULL for None */
  int root;          /* 0 */
  int peer;
  bool return_counts;         /* false */
  double prescale, postscale; /* 1 */
} arguments;

/* A method: its name, the number of its required arguments and of those that may be given by
 * position, and the arguments. */
typedef struct arguments_form {
  const char *method;
  int required, positional, count;
  arguments_name names[ARGUMENTS_MOST];
} arguments_form;

/* The arguments of a call. */
typedef struct arguments_given {
  PyObject *const *values;
  Py_ssize_t positional;
  PyObject *names; /* a tuple of str; NULL for none */
  bool start;      /* the method is called <name>_start */
} arguments_given;

/* Called when the module is loaded. 0, or -1 with an exception. */
int arguments_intern(module_state *state);

/* 0, or -1 with an exception. */
int arguments_read(arguments *arguments, module_state *state, const arguments_form *form,
                   const arguments_given *given);

/* Replaces a TypeError of Python, which does not name the argument, by one that does: `name` must be `wanted`.
 * Keeps any other exception. Returns -1. */
int arguments_name_error(const char *name, const char *wanted, PyObject *value);

/* The functions below read one argument. `name` is the name of the argument in the TypeError for any other type.
 * 0, or -1 with an exception. */

/* The nearest Py_ssize_t, where the number does not fit. */
int arguments_read_size(PyObject *value, const char *name, Py_ssize_t *size);

/* A rank or a key. The core checks the range of a rank. */
int arguments_read_int(module_state *state, PyObject *value, const char *name, int *number);

/* Borrowed. */
int arguments_read_text(PyObject *value, const char *name, const char **text);

int arguments_read_real(PyObject *value, const char *name, double *number);

#endif
