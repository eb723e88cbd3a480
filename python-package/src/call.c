/* SPDX-License-Identifier: Apache-2.0 */
#include "call.h"

int call_enter(call *call, comm_object *comm, operands *operands, operands_finish_fn finish,
               const char *name, PyTypeObject *request) {
  *call = (struct call){.comm = comm, .operands = operands, .finish = finish};
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

PyObject *call_leave(call *call, ring_status status) {
  bool succeeded = comm_leave(call->comm, status);
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

/* ---- Arrays on GPUs ----------------------------------------------------------------------- */

/* A new tuple: the communicator, the name, whether to start, and the arguments. */
static PyObject *read_values(comm_object *comm, const char *name, const arguments_given *given) {
  PyObject *values = PyTuple_New(given->count);
  for (Py_ssize_t i = 0; values && i < given->count; i++) {
    Py_INCREF(given->values[i]);
    PyTuple_SetItem(values, i, given->values[i]);
  }
  PyObject *first =
      values ? Py_BuildValue("(OsO)", comm, name, given->request ? Py_True : Py_False) : NULL;
  PyObject *all = first ? PySequence_Concat(first, values) : NULL;
  Py_XDECREF(first);
  Py_XDECREF(values);
  return all;
}

static PyObject *call_device(comm_object *comm, const char *name, const arguments_given *given) {
  PyObject *module = PyImport_ImportModule("sparkring._device.calls");
  PyObject *function = module ? PyObject_GetAttrString(module, "call") : NULL;
  PyObject *values = function ? read_values(comm, name, given) : NULL;
  PyObject *result = values ? PyObject_CallObject(function, values) : NULL;
  Py_XDECREF(values);
  Py_XDECREF(function);
  Py_XDECREF(module);
  return result;
}

PyObject *call_route(comm_object *comm, call_method method, const char *name,
                     const arguments_given *given) {
  PyObject *result = method(comm, given);
  if (result || !PyErr_ExceptionMatches(comm_state(comm)->on_gpu)) return result;
  PyErr_Clear();
  return call_device(comm, name, given);
}

PyObject *call_collective(comm_object *comm, call_method method, const char *name,
                          PyObject *const *values, Py_ssize_t count) {
  arguments_given given = {values + 1, count - 1, NULL};
  PyObject *kind = count > 0 ? values[0] : Py_None;
  if (call_read_request(&given.request, comm, kind) < 0) return NULL;
  return call_route(comm, method, name, &given);
}
