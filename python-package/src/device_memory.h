/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory of a GPU as a Python object, which frees it, and capsules of DLPack over it.
 */
#ifndef SPARKRING_DEVICE_MEMORY_H
#define SPARKRING_DEVICE_MEMORY_H

#include "state.h"

/* A new object, or NULL with an exception. */
PyObject *device_memory_make(module_state *state, ring_device *device, size_t bytes);

/* The Python type, for PyType_FromModuleAndSpec. */
extern PyType_Spec device_memory_type_spec;

#endif
