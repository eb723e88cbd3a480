/* SPDX-License-Identifier: Apache-2.0
 *
 * An array of DLPack in the memory of a GPU, as numbers. The memory stays in place while the object lives.
 */
#ifndef SPARKRING_DEVICE_TENSOR_H
#define SPARKRING_DEVICE_TENSOR_H

#include "state.h"

/* The function _core.device_read(object, stream): the object has __dlpack__, or is a capsule. */
PyObject *device_tensor_read(PyObject *module, PyObject *args);

/* The Python type, for PyType_FromModuleAndSpec. */
extern PyType_Spec device_tensor_type_spec;

#endif
