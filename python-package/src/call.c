/* SPDX-License-Identifier: Apache-2.0 */
#include "call.h"

int call_enter(call *call, comm_object *comm, operands *operands, operands_finish_fn finish,
               const char *name, bool start) {
  *call = (struct call){.comm = comm, .operands = operands, .finish = finish};
  if (start) {
    call->request = request_make(comm, operands, finish, name);
    if (call->request == NULL) return -1;
  }
  operands_describe(operands, comm);
  if (operands && (operands->prescale != 1 || operands->postscale != 1))
    ring_comm_scale(comm->comm, operands->prescale, operands->postscale);
  comm_enter(comm);
  return 0;
}

PyObject *call_leave(call *call, ring_status status) {
  bool succeeded = comm_leave(call->comm, status);
  if (call->request == NULL) return call->finish(call->operands, succeeded);
  if (succeeded) return (PyObject *)call->request;
  Py_DECREF((PyObject *)call->request);
  return NULL;
}
