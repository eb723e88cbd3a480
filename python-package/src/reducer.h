/* SPDX-License-Identifier: Apache-2.0
 *
 * The reducer as a Python object, and its submissions. sparkring/_reducer.py gives both their methods
 * with named arguments.
 */
#ifndef SPARKRING_REDUCER_OBJECT_H
#define SPARKRING_REDUCER_OBJECT_H

#include "comm.h"

/* The function _core.reducer_open(comm, threshold, cycle_time, cache_capacity, stall_timeout,
 * autotune, autotune_log). */
PyObject *reducer_open(PyObject *module, PyObject *args);

/* The Python types, for PyType_FromModuleAndSpec. */
extern PyType_Spec reducer_type_spec;
extern PyType_Spec submission_type_spec;

#endif
