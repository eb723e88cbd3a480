/* SPDX-License-Identifier: Apache-2.0
 *
 * The reducer as a Python object. sparkring/_reducer.py gives it methods with named arguments.
 */
#ifndef SPARKRING_REDUCER_OBJECT_H
#define SPARKRING_REDUCER_OBJECT_H

#include "comm.h"

typedef struct reducer_object {
  PyObject_HEAD comm_object *comm;
  ring_reducer *reducer;
} reducer_object;

/* The function _core.reducer_open(comm, threshold, cycle_time, cache_capacity, stall_timeout,
 * autotune, autotune_log, path, nccl, nvrtc), the last three for the device of arrays on GPUs. */
PyObject *reducer_open(PyObject *module, PyObject *args);

/* Raises the error of a status. Returns NULL. */
PyObject *reducer_raise(const reducer_object *self, ring_status status);

/* The Python type, for PyType_FromModuleAndSpec. */
extern PyType_Spec reducer_type_spec;

#endif
