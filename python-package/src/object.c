/* SPDX-License-Identifier: Apache-2.0 */
#include "object.h"

void object_free(PyObject *object) {
  PyTypeObject *type = Py_TYPE(object);
  freefunc free_object = (freefunc)PyType_GetSlot(type, Py_tp_free);
  free_object(object);
  Py_DECREF(type);
}
