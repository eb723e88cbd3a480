/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening, splitting, shrinking and ending a communicator. Python has checked the arguments before
 * (sparkring/_init.py), so this file only converts them to ring_options. The exchange is
 * the only place where the core runs Python code of the user. An exception of the exchange ends the
 * opening, and init raises the exception.
 */
#include "comm.h"

#include <limits.h>
#include <string.h>

#include "arguments.h"
#include "device.h"
#include "error.h"
#include "gil.h"
#include "trace.h"

module_state *comm_state(const comm_object *self) {
  return self->state;
}

void comm_enter(comm_object *self) {
  self->running++;
  gil_release();
}

static bool comm_leave_with(comm_object *self, ring_status status, const ring_error *error) {
  gil_take();
  self->running--;
  if (status == RING_OK && !PyErr_Occurred()) return true;
  error_raise(comm_state(self), status, error);
  return false;
}

bool comm_leave(comm_object *self, ring_status status) {
  return comm_leave_with(self, status, ring_comm_error(self->comm));
}

/* ---- Opening ------------------------------------------------------------------------------ */

/* Calls exchange(text) and passes each returned string to the core. */
static int exchange_texts(PyObject *exchange, const char *mine, ring_exchange_put_fn put,
                          void *sink) {
  PyObject *answer = PyObject_CallFunction(exchange, "s", mine);
  PyObject *texts = answer ? PySequence_Tuple(answer) : NULL;
  Py_XDECREF(answer);
  if (texts == NULL) return -1;
  int failed = 0;
  for (Py_ssize_t rank = 0; !failed && rank < PyTuple_Size(texts); rank++) {
    const char *text = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(texts, rank), NULL);
    if (text) put(sink, (int)rank, text);
    failed = text == NULL;
  }
  Py_DECREF(texts);
  return failed;
}

static int exchange_call(void *exchange, const char *mine, ring_exchange_put_fn put, void *sink) {
  gil_take();
  int failed = exchange_texts(exchange, mine, put, sink);
  gil_release();
  return failed;
}

/* The strings of a tuple of str. The tuple must outlive them. NULL with an exception. */
static const char **borrow_texts(PyObject *tuple) {
  Py_ssize_t count = PyTuple_Size(tuple);
  const char **texts = PyMem_Calloc((size_t)count + 1, sizeof(*texts));
  if (texts == NULL) return (const char **)PyErr_NoMemory();
  for (Py_ssize_t i = 0; i < count; i++) {
    texts[i] = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(tuple, i), NULL);
    if (texts[i] == NULL) {
      PyMem_Free(texts);
      return NULL;
    }
  }
  return texts;
}

/* None is the default. */
static ring_choice choice(PyObject *given) {
  if (given == Py_None) return RING_DEFAULT;
  return given == Py_True ? RING_ON : RING_OFF;
}

/* A new object of a class of communicators, not opened yet. */
static comm_object *comm_make(PyTypeObject *type, module_state *state) {
  comm_object *self = (comm_object *)PyType_GenericAlloc(type, 0);
  if (self) self->state = state;
  return self;
}

static PyObject *open_with(PyTypeObject *type, module_state *state, const ring_options *options) {
  comm_object *self = comm_make(type, state);
  if (self == NULL) return NULL;
  ring_error error = {.rank = -1};
  gil_release();
  ring_status status = ring_comm_open(options, &self->comm, &error);
  gil_take();
  if (status == RING_OK && !PyErr_Occurred()) return (PyObject *)self;
  self->closed = true;
  error_raise(state, status, &error);
  Py_DECREF(self);
  return NULL;
}

PyObject *comm_open(PyObject *module, PyObject *args) {
  PyObject *addresses, *exchange, *encryption, *result = NULL;
  PyTypeObject *type;
  module_state *state = PyModule_GetState(module);
  const char **texts = NULL;
  int port_first, port_last, shared, watch;
  Py_buffer token;
  ring_options options = RING_OPTIONS_INIT;
  if (module_need_numpy(state) < 0) return NULL;
  if (!PyArg_ParseTuple(args, "O!iiOzz*z(ii)dddzOpiOpz:open", &PyType_Type, &type, &options.rank,
                        &options.size, &addresses, &options.root_address, &token, &options.job,
                        &port_first, &port_last, &options.timeout, &options.call_timeout,
                        &options.warn_after, &options.algorithms, &exchange, &shared,
                        &options.connections, &encryption, &watch, &options.backend))
    return NULL;
  if (!PyType_IsSubtype(type, state->comm_type)) {
    PyErr_Format(PyExc_TypeError, "%R is not a class of communicators", type);
    goto out;
  }
  if (addresses != Py_None) {
    texts = borrow_texts(addresses);
    if (texts == NULL) goto out;
    options.addresses = texts;
    options.address_count = (int)PyTuple_Size(addresses);
  }
  options.token = token.buf;
  options.token_length = (size_t)token.len;
  options.port_first = (uint16_t)port_first;
  options.port_last = (uint16_t)port_last;
  if (exchange != Py_None) options.exchange = exchange_call;
  options.exchange_arg = exchange;
  options.interrupt = gil_interrupt;
  options.log = gil_log;
  options.shared_memory = shared ? RING_DEFAULT : RING_OFF;
  options.encryption = choice(encryption);
  options.watch_parent = watch ? RING_ON : RING_OFF;
  result = open_with(type, state, &options);
out:
  PyMem_Free(texts);
  PyBuffer_Release(&token);
  return result;
}

/* ---- Splitting ---------------------------------------------------------------------------- */

/* With None the rank gets no communicator. */
static int read_color(module_state *state, PyObject *color, int *number) {
  *number = -1;
  if (color == Py_None) return 0;
  Py_ssize_t value;
  if (arguments_read_size(color, "color", &value) < 0) return -1;
  *number = (int)value;
  if (value >= 0 && value <= INT_MAX) return 0;
  error_invalid(state, "color is %S: it must be from 0 to %d, or None for no communicator", color,
                INT_MAX);
  return -1;
}

PyObject *comm_split(PyObject *object, PyObject *args) {
  comm_object *self = (comm_object *)object;
  PyObject *color, *order;
  int number, key;
  if (!PyArg_ParseTuple(args, "OO:split", &color, &order)) return NULL;
  if (read_color(comm_state(self), color, &number) < 0) return NULL;
  if (arguments_read_int(comm_state(self), order, "key", &key) < 0) return NULL;
  comm_object *child = comm_make(Py_TYPE(object), comm_state(self));
  if (child == NULL) return NULL;
  comm_enter(self);
  ring_status status = ring_comm_split(self->comm, number, key, &child->comm);
  if (comm_leave(self, status) && child->comm) return (PyObject *)child;
  child->closed = true;
  Py_DECREF((PyObject *)child);
  if (status != RING_OK || PyErr_Occurred()) return NULL;
  Py_RETURN_NONE;
}

/* ---- Ending ------------------------------------------------------------------------------- */

/* None becomes 0, which means the call timeout in the core. */
static int read_patience(module_state *state, PyObject *timeout, double *seconds) {
  char text[32];
  *seconds = 0;
  if (timeout == Py_None) return 0;
  if (arguments_read_real(timeout, "timeout", seconds) < 0) return -1;
  if (*seconds > 0) return 0;
  PyOS_snprintf(text, sizeof text, "%g", *seconds);
  error_invalid(state, "timeout is %s: it must be a positive number of seconds", text);
  return -1;
}

PyObject *comm_shrink(PyObject *object, PyObject *timeout) {
  comm_object *self = (comm_object *)object;
  double seconds;
  ring_error error;
  if (read_patience(comm_state(self), timeout, &seconds) < 0) return NULL;
  comm_object *child = comm_make(Py_TYPE(object), comm_state(self));
  if (child == NULL) return NULL;
  if (self->device) device_abort(self->device, "its communicator is shrunk");
  comm_enter(self);
  ring_status status = ring_comm_shrink(self->comm, seconds, &child->comm, &error);
  bool succeeded = comm_leave_with(self, status, &error);
  self->closed = self->closed || status == RING_OK;
  if (self->closed) trace_end(self);
  if (succeeded) return (PyObject *)child;
  child->closed = true;
  Py_DECREF((PyObject *)child);
  return NULL;
}

PyObject *comm_close(PyObject *object, PyObject *timeout) {
  comm_object *self = (comm_object *)object;
  double seconds;
  if (read_patience(comm_state(self), timeout, &seconds) < 0) return NULL;
  if (self->closed) Py_RETURN_NONE;
  PyObject *kind, *value, *traceback;
  if (self->device) device_end(self->device);
  PyErr_Fetch(&kind, &value, &traceback);
  comm_enter(self);
  ring_status status = ring_comm_close_within(self->comm, seconds);
  bool succeeded = comm_leave(self, status);
  self->closed = succeeded || status != RING_BUSY;
  if (self->closed) trace_end(self);
  if (succeeded && kind == NULL) Py_RETURN_NONE;
  if (succeeded) PyErr_Restore(kind, value, traceback);
  return NULL;
}

PyObject *comm_abort(PyObject *object, PyObject *args) {
  comm_object *self = (comm_object *)object;
  const char *reason;
  if (!PyArg_ParseTuple(args, "z:abort", &reason)) return NULL;
  if (self->closed) Py_RETURN_NONE;
  if (self->device) device_abort(self->device, reason);
  comm_enter(self);
  ring_comm_abort(self->comm, reason);
  bool succeeded = comm_leave(self, RING_OK);
  self->closed = true;
  trace_end(self);
  if (!succeeded) return NULL;
  Py_RETURN_NONE;
}
