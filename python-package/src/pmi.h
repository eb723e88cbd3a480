/* SPDX-License-Identifier: Apache-2.0
 *
 * A PMI server as a Python object. sparkring/_mpi starts the program that it serves.
 */
#ifndef SPARKRING_PMI_OBJECT_H
#define SPARKRING_PMI_OBJECT_H

#include "comm.h"

/* The function _core.pmi_serve(comm, pmix). */
PyObject *pmi_serve(PyObject *module, PyObject *args);

/* The Python type, for PyType_FromModuleAndSpec. */
extern PyType_Spec pmi_type_spec;

#endif
