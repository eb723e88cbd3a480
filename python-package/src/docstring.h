/* SPDX-License-Identifier: Apache-2.0
 *
 * Docstrings of the types in C. Their texts are in Python (sparkring/_docs).
 */
#ifndef SPARKRING_DOCSTRING_H
#define SPARKRING_DOCSTRING_H

#include "state.h"

/* The function _core.document: sets the docstring of a method or a property. The first call for a
 * name counts: PyMethodDef and PyGetSetDef borrow the text, so it lives until the process ends. */
PyObject *docstring_set(PyObject *module, PyObject *args);

#endif
