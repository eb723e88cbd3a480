/* SPDX-License-Identifier: Apache-2.0
 *
 * The end of objects, and constructors that refuse, for all types of the module.
 */
#ifndef SPARKRING_OBJECT_H
#define SPARKRING_OBJECT_H

#include "python_api.h"

/* Frees the memory of an object, as the last step of its tp_dealloc. */
void object_free(PyObject *object);

/* Defines a tp_new that raises TypeError: no caller makes objects of the type. `text` says what does. */
#define OBJECT_REFUSES(name, text)                                                                 \
  static PyObject *name(PyTypeObject *type, PyObject *args, PyObject *kwargs) {                    \
    (void)type, (void)args, (void)kwargs;                                                          \
    PyErr_SetString(PyExc_TypeError, text);                                                        \
    return NULL;                                                                                   \
  }

#endif
