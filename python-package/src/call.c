/* SPDX-License-Identifier: Apache-2.0 */
#include "call.h"

#include "device.h"

/* Memory of a GPU: the call is put on a stream before it returns, so a request of it needs no thread. */
static void call_place(call *call, PyTypeObject **request) {
  const operands *operands = call->operands;
  if (operands == NULL || operands->in.gpu == NULL) return;
  call->on_gpu = true;
  call->stream = operands->in.stream;
  call->starts = *request != NULL;
  *request = NULL;
  ring_comm_on_device(call->comm->comm, call->comm->device->device, call->stream);
}

int call_enter(call *call, comm_object *comm, operands *operands, operands_finish_fn finish,
               const char *name, PyTypeObject *request) {
  *call = (struct call){.comm = comm, .operands = operands, .finish = finish};
  call_place(call, &request);
  if (request) {
    call->request = request_make(request, comm, operands, finish, name);
    if (call->request == NULL) return -1;
  }
  operands_describe(operands, comm);
  if (operands && (operands->prescale != 1 || operands->postscale != 1))
    ring_comm_scale(comm->comm, operands->prescale, operands->postscale);
  comm_enter(comm);
  return 0;
}

static PyObject *leave_on_gpu(call *call, ring_status status, bool succeeded) {
  if (!succeeded) device_note(call->comm->device, status);
  PyObject *result = call->finish(call->operands, succeeded);
  return result && call->starts ? device_request_make(call->comm->device, call->stream, result)
                                : result;
}

PyObject *call_leave(call *call, ring_status status) {
  bool succeeded = comm_leave(call->comm, status);
  if (call->on_gpu) return leave_on_gpu(call, status, succeeded);
  if (!succeeded && call->request == NULL && ring_comm_holds_buffers(call->comm->comm))
    return NULL; /* the operands leak */
  if (call->request == NULL) return call->finish(call->operands, succeeded);
  if (succeeded) return (PyObject *)call->request;
  Py_DECREF((PyObject *)call->request);
  return NULL;
}

int call_read_request(PyTypeObject **request, const comm_object *comm, PyObject *kind) {
  *request = NULL;
  if (kind == Py_None) return 0;
  *request = (PyTypeObject *)kind;
  if (PyType_Check(kind) && PyType_IsSubtype(*request, comm->state->request_type)) return 0;
  PyErr_Format(PyExc_TypeError, "%R is not a class of requests", kind);
  return -1;
}

PyObject *call_collective(comm_object *comm, call_method method, PyObject *const *values,
                          Py_ssize_t count) {
  arguments_given given = {values + 1, count - 1, NULL};
  PyObject *kind = count > 0 ? values[0] : Py_None;
  if (call_read_request(&given.request, comm, kind) < 0) return NULL;
  return method(comm, &given);
}
