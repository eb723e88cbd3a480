/* SPDX-License-Identifier: Apache-2.0 */
#include "nccl.h"

#include "error.h"

PyObject *nccl_id(PyObject *object, PyObject *libraries) {
  comm_object *self = (comm_object *)object;
  char id[RING_NCCL_ID_BYTES];
  const char *list = PyBytes_AsString(libraries);
  if (list == NULL) return NULL;
  comm_enter(self);
  if (!comm_leave(self, ring_nccl_id(self->comm, list, id))) return NULL;
  return PyBytes_FromStringAndSize(id, sizeof id);
}
