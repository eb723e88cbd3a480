/* SPDX-License-Identifier: Apache-2.0
 *
 * The arguments of the collective methods. The classes in Python know names and defaults, and pass
 * all arguments by position. CPython passes them as an array, and this file reads the array: a
 * tuple for PyArg_ParseTuple would take longer than a short call of the core.
 */
#ifndef SPARKRING_ARGUMENTS_H
#define SPARKRING_ARGUMENTS_H

#include <stdbool.h>

#include "state.h"

/* The given arguments. Of those that a method lacks, the value that changes nothing. Borrowed,
 * strings included. */
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

#define ARGUMENTS_MAP(ENTRY)                                                                       \
  ENTRY(X, "x")                                                                                    \
  ENTRY(XS, "xs")                                                                                  \
  ENTRY(COUNTS, "counts")                                                                          \
  ENTRY(OUT, "out")                                                                                \
  ENTRY(OP, "op")                                                                                  \
  ENTRY(DTYPE, "dtype")                                                                            \
  ENTRY(ROOT, "root")                                                                              \
  ENTRY(PEER, "peer")                                                                              \
  ENTRY(RETURN_COUNTS, "return_counts")                                                            \
  ENTRY(PRESCALE, "prescale")                                                                      \
  ENTRY(POSTSCALE, "postscale")

#define ARGUMENTS_MOST 7 /* most arguments of a method */

typedef enum arguments_name {
#define ARGUMENTS_ENUM(name, text) ARGUMENTS_##name,
  ARGUMENTS_MAP(ARGUMENTS_ENUM)
#undef ARGUMENTS_ENUM
      ARGUMENTS_NAMES
} arguments_name;

/* A method: its name, and its arguments in their order. */
typedef struct arguments_form {
  const char *method;
  int count;
  arguments_name names[ARGUMENTS_MOST];
} arguments_form;

/* The arguments of a call. */
typedef struct arguments_given {
  PyObject *const *values;
  Py_ssize_t count;
  PyTypeObject *request; /* the class of the request that the method returns; NULL: it waits */
} arguments_given;

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
