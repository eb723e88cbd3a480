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

/* Parses a rank. The core checks its range. `name` is the name of the argument. 0, or -1 with an
 * exception. */
int arguments_read_rank(module_state *state, PyObject *value, const char *name, int *rank);

#endif
