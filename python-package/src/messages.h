/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages as a Python object, and their transfers. sparkring/_messages.py gives both their methods with
 * named arguments.
 */
#ifndef SPARKRING_MESSAGES_OBJECT_H
#define SPARKRING_MESSAGES_OBJECT_H

#include "comm.h"

/* The function _core.messages_open(comm). */
PyObject *messages_open(PyObject *module, PyObject *comm);

/* The Python types, for PyType_FromModuleAndSpec. */
extern PyType_Spec messages_type_spec;
extern PyType_Spec transfer_type_spec;

#endif
