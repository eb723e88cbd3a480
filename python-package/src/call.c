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
  if (!succeeded && call->request == NULL && ring_comm_holds_buffers(call->comm->comm))
    return NULL; /* the operands leak */
  if (call->request == NULL) return call->finish(call->operands, succeeded);
  if (succeeded) return (PyObject *)call->request;
  Py_DECREF((PyObject *)call->request);
  return NULL;
}

/* ---- Arrays on GPUs ----------------------------------------------------------------------- */

/* The named arguments as a new dict. */
static PyObject *read_keywords(const arguments_given *given) {
  PyObject *keywords = PyDict_New();
  Py_ssize_t count = keywords && given->names ? PyTuple_Size(given->names) : 0;
  for (Py_ssize_t i = 0; i < count; i++) {
    PyObject *value = given->values[given->positional + i];
    if (PyDict_SetItem(keywords, PyTuple_GetItem(given->names, i), value) == 0) continue;
    Py_DECREF(keywords);
    return NULL;
  }
  return keywords;
}

/* A new tuple: the communicator, the name, whether to start, and the positional arguments. */
static PyObject *read_values(comm_object *comm, const char *name, const arguments_given *given) {
  PyObject *values = PyTuple_New(given->positional);
  for (Py_ssize_t i = 0; values && i < given->positional; i++) {
    Py_INCREF(given->values[i]);
    PyTuple_SetItem(values, i, given->values[i]);
  }
  PyObject *first =
      values ? Py_BuildValue("(OsO)", comm, name, given->start ? Py_True : Py_False) : NULL;
  PyObject *all = first ? PySequence_Concat(first, values) : NULL;
  Py_XDECREF(first);
  Py_XDECREF(values);
  return all;
}

static PyObject *call_device(comm_object *comm, const char *name, const arguments_given *given) {
  PyObject *module = PyImport_ImportModule("sparkring._device.calls");
  PyObject *function = module ? PyObject_GetAttrString(module, "call") : NULL;
  PyObject *values = function ? read_values(comm, name, given) : NULL;
  PyObject *keywords = values ? read_keywords(given) : NULL;
  PyObject *result = keywords ? PyObject_Call(function, values, keywords) : NULL;
  Py_XDECREF(keywords);
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
