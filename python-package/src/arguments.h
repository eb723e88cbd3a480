/* SPDX-License-Identifier: Apache-2.0
 *
 * The arguments of the methods that collectives are. CPython passes them as an array, those given
 * by name last (vectorcall), and they are read from there: a tuple and a dict for
 * PyArg_ParseTupleAndKeywords would take longer than a short call of the core. The names are known
 * to all methods, interned, so that one is usually recognised by its address.
 */
#ifndef SPARKRING_ARGUMENTS_H
#define SPARKRING_ARGUMENTS_H

#include <stdbool.h>

#include "state.h"

/* What was given, or else the default. Borrowed, and texts, too. */
typedef struct arguments {
  PyObject *x, *xs, *counts;
  PyObject *out;     /* None */
  const char *op;    /* "sum" */
  const char *dtype; /* NULL for None */
  int root;          /* 0 */
  int peer;
} arguments;

/* A method: its name, how many of its arguments are required and how many may be given by position,
 * and what they are. */
typedef struct arguments_form {
  const char *method;
  int required, positional, count;
  arguments_name names[ARGUMENTS_MOST];
} arguments_form;

/* What a method is passed. */
typedef struct arguments_given {
  PyObject *const *values;
  Py_ssize_t positional;
  PyObject *names; /* a tuple of str; NULL for none */
  bool start;      /* the method is called <name>_start */
} arguments_given;

/* When the module is loaded. 0, or -1 with an exception. */
int arguments_intern(module_state *state);

/* 0, or -1 with an exception. */
int arguments_read(arguments *arguments, module_state *state, const arguments_form *form,
                   const arguments_given *given);

/* A rank, for the core to say whether there is one; `name` is the argument's. 0, or -1 with an
 * exception. */
int arguments_read_rank(module_state *state, PyObject *value, const char *name, int *rank);

#endif
