/* SPDX-License-Identifier: Apache-2.0
 *
 * A started collective as a Python object. Until it is complete it owns the data of the core: the
 * views, which keep the arrays in place, and the communicator.
 */
#ifndef SPARKRING_REQUEST_H
#define SPARKRING_REQUEST_H

#include "comm.h"
#include "operands.h"

typedef struct request_object {
  PyObject_HEAD ring_request *request; /* NULL until it is started */
  comm_object *comm;
  operands *operands;
  operands_finish_fn finish; /* NULL once it has made the result */
  PyObject *result;
  const char *name; /* of the collective; static */
  PyObject *weakrefs;
  bool waiting; /* a thread is in the core with it */
} request_object;

/* A new request of a class, not started yet. Takes over the operands. NULL with an exception. */
request_object *request_make(PyTypeObject *type, comm_object *comm, operands *operands,
                             operands_finish_fn finish, const char *name);

/* The Python type, for PyType_FromModuleAndSpec. */
extern PyType_Spec request_type_spec;

#endif
