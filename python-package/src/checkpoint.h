/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions of the module for files of states (sparkring/spark/_checkpoint.py).
 */
#ifndef SPARKRING_CHECKPOINT_H
#define SPARKRING_CHECKPOINT_H

#include "state.h"

/* checkpoint_name(number): the name of the file of a state. */
PyObject *checkpoint_name(PyObject *module, PyObject *number);

/* checkpoint_number(name): the number of a state, or None for another file. */
PyObject *checkpoint_number(PyObject *module, PyObject *name);

/* checkpoint_is_old(number, newest): whether the state need not be kept. */
PyObject *checkpoint_is_old(PyObject *module, PyObject *args);

/* checkpoint_trailer(state): what follows the state in its file. */
PyObject *checkpoint_trailer(PyObject *module, PyObject *state);

/* checkpoint_length(file): the length of the state in a file's content; None when it is not whole. */
PyObject *checkpoint_length(PyObject *module, PyObject *file);

#endif
