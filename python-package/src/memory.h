/* SPDX-License-Identifier: Apache-2.0
 *
 * Arrays in memory that the ranks of a host share, where collectives need no copies.
 */
#ifndef SPARKRING_MEMORY_H
#define SPARKRING_MEMORY_H

#include "comm.h"

/* Whether a new result of so many bytes is in shared memory; an array of `empty` whatever its
 * size. */
bool memory_is_shared(comm_object *self, Py_ssize_t bytes, bool empty);

/* A new NumPy array, not initialised, in shared memory when it is large enough to pay. Takes over
 * the references to shape and dtype (a NumPy dtype). dtype is NULL when making it has raised. NULL
 * with an exception. */
PyObject *memory_make_result(comm_object *self, PyObject *shape, PyObject *dtype,
                             Py_ssize_t itemsize);

/* The same for a tuple of lengths, without taking over a reference. */
PyObject *memory_make_array(comm_object *self, PyObject *shape, PyObject *dtype,
                            Py_ssize_t itemsize, bool empty);

/* The Python type, for PyType_FromModuleAndSpec. */
extern PyType_Spec memory_type_spec;

#endif
