/* SPDX-License-Identifier: Apache-2.0
 *
 * A transfer keeps the view of its array open until it is done. Its result is made by the first wait or test
 * after the end. A receive without an array gets an array that is made then. A transfer that is dropped in a
 * hook of the core, or when the interpreter ends, is never freed: the core may use its memory.
 */
#include "messages.h"

#include <string.h>

#include "error.h"
#include "gil.h"
#include "memory.h"
#include "object.h"
#include "operands.h"

typedef struct messages_object {
  PyObject_HEAD comm_object *comm;
  ring_messages *messages;
} messages_object;

typedef struct transfer_object {
  PyObject_HEAD messages_object *messages;
  ring_transfer *transfer;
  operands *operands; /* NULL: of a receive without an array, and when they are closed */
  PyObject *result;
  bool receives, settled, waiting;
} transfer_object;

static module_state *messages_state(const messages_object *self) {
  return comm_state(self->comm);
}

static PyObject *messages_raise(const messages_object *self, ring_status status) {
  return error_raise(messages_state(self), status, ring_messages_error(self->messages));
}

/* ---- Results ------------------------------------------------------------------------------ */

/* A new array with the bytes of a message. */
static PyObject *make_array(messages_object *self, const ring_message_info *info,
                            const void *bytes) {
  module_state *state = messages_state(self);
  const char *name = info->dtype == RING_BFLOAT16 ? "uint16" : ring_dtype_name(info->dtype);
  PyObject *shape = Py_BuildValue("(n)", (Py_ssize_t)info->count);
  PyObject *dtype = shape ? PyObject_CallMethod(state->numpy, "dtype", "s", name) : NULL;
  if (dtype == NULL) {
    Py_XDECREF(shape);
    return NULL;
  }
  Py_ssize_t width = (Py_ssize_t)ring_dtype_size(info->dtype);
  PyObject *array = memory_make_result(self->comm, shape, dtype, width);
  Py_buffer view;
  if (array == NULL || info->count == 0) return array;
  if (PyObject_GetBuffer(array, &view, PyBUF_SIMPLE | PyBUF_WRITABLE) < 0) {
    Py_DECREF(array);
    return NULL;
  }
  memcpy(view.buf, bytes, (size_t)view.len);
  PyBuffer_Release(&view);
  return array;
}

static PyObject *settle_result(transfer_object *self, bool succeeded) {
  operands *o = self->operands;
  self->operands = NULL;
  if (succeeded && self->receives && o == NULL) {
    ring_message_info info = ring_transfer_info(self->transfer);
    void *output = ring_transfer_take_output(self->transfer);
    PyObject *array = make_array(self->messages, &info, output);
    ring_free(output);
    return array;
  }
  PyObject *result = o ? operands_finish(o, succeeded) : NULL;
  if (!succeeded || self->receives) return result;
  Py_XDECREF(result);
  Py_RETURN_NONE;
}

/* The result of a transfer that is done, or NULL with an exception. */
static PyObject *transfer_answer(transfer_object *self, ring_status status) {
  module_state *state = messages_state(self->messages);
  if (PyErr_Occurred()) return NULL; /* from a signal handler */
  if (!self->settled) {
    self->settled = true;
    self->result = settle_result(self, status == RING_OK);
    if (status == RING_OK && PyErr_Occurred()) return NULL;
  }
  if (status != RING_OK) return error_raise(state, status, ring_transfer_error(self->transfer));
  if (self->result == NULL) return error_raise(state, RING_NO_MEMORY, NULL);
  Py_INCREF(self->result);
  return self->result;
}

static PyObject *transfer_wait(PyObject *object, PyObject *unused) {
  (void)unused;
  transfer_object *self = (transfer_object *)object;
  static const ring_error busy = {
      .status = RING_BUSY, .rank = -1, .message = "another thread is waiting for this transfer"};
  if (self->waiting) return error_raise(messages_state(self->messages), RING_BUSY, &busy);
  self->waiting = true;
  gil_release();
  ring_status status = ring_transfer_wait(self->transfer);
  gil_take();
  self->waiting = false;
  return transfer_answer(self, status);
}

static PyObject *transfer_test(PyObject *object, PyObject *unused) {
  (void)unused;
  transfer_object *self = (transfer_object *)object;
  int done = 0;
  ring_status status = self->waiting ? RING_OK : ring_transfer_test(self->transfer, &done);
  if (!done) Py_RETURN_FALSE;
  PyObject *result = transfer_answer(self, status);
  if (result == NULL) return NULL;
  Py_DECREF(result);
  Py_RETURN_TRUE;
}

static PyObject *transfer_cancel(PyObject *object, PyObject *unused) {
  (void)unused;
  ring_transfer_cancel(((transfer_object *)object)->transfer);
  Py_RETURN_NONE;
}

static PyObject *info_tuple(const ring_message_info *info) {
  return Py_BuildValue("iisn", info->source, info->tag, ring_dtype_name(info->dtype),
                       (Py_ssize_t)info->count);
}

static PyObject *transfer_info(PyObject *object, PyObject *unused) {
  (void)unused;
  const transfer_object *self = (const transfer_object *)object;
  if (!self->receives || !self->settled) Py_RETURN_NONE;
  ring_message_info info = ring_transfer_info(self->transfer);
  return info_tuple(&info);
}

static void transfer_dealloc(PyObject *object) {
  transfer_object *self = (transfer_object *)object;
  int done = 1;
  if (self->transfer) ring_transfer_test(self->transfer, &done);
  bool leaves = !done && (gil_in_hook() || gil_is_ending());
  if (self->transfer && !leaves) {
    PyObject *kind, *value, *traceback;
    PyErr_Fetch(&kind, &value, &traceback);
    gil_release();
    ring_transfer_cancel(self->transfer);
    ring_transfer_wait(self->transfer);
    gil_take();
    if (!self->settled) Py_XDECREF(settle_result(self, false));
    ring_transfer_free(self->transfer);
    PyErr_Restore(kind, value, traceback);
  }
  if (!leaves) {
    Py_CLEAR(self->result);
    Py_CLEAR(self->messages);
  }
  object_free(object);
}

/* ---- Sending and receiving ---------------------------------------------------------------- */

/* A transfer of the operands, which it takes over; NULL with an exception. */
static PyObject *make_transfer(messages_object *self, operands *o, bool receives, int peer,
                               int tag) {
  transfer_object *made =
      (transfer_object *)PyType_GenericAlloc(messages_state(self)->transfer_type, 0);
  ring_status status = RING_NO_MEMORY;
  if (made == NULL) {
    if (o) Py_XDECREF(operands_finish(o, false));
    return NULL;
  }
  Py_INCREF((PyObject *)self);
  made->messages = self;
  made->operands = o;
  made->receives = receives;
  if (!receives)
    status = ring_messages_send_start(self->messages, o->in.buffer.buf, o->in.count, o->in.dtype,
                                      peer, tag, &made->transfer);
  else if (o)
    status = ring_messages_recv_start(self->messages, o->out.buffer.buf, o->out.count, o->out.dtype,
                                      peer, tag, &made->transfer);
  else
    status = ring_messages_take_start(self->messages, peer, tag, &made->transfer);
  if (status == RING_OK) return (PyObject *)made;
  Py_XDECREF(settle_result(made, false));
  Py_DECREF((PyObject *)made);
  return messages_raise(self, status);
}

/* send_start(x, peer, tag, dtype) */
static PyObject *messages_send_start(PyObject *object, PyObject *args) {
  messages_object *self = (messages_object *)object;
  PyObject *x;
  const char *dtype;
  int peer, tag;
  if (!PyArg_ParseTuple(args, "Oiiz:send", &x, &peer, &tag, &dtype)) return NULL;
  operands *o = operands_open(self->comm, x, -1, dtype, true, OPERANDS_HOST);
  return o ? make_transfer(self, o, false, peer, tag) : NULL;
}

/* send(x, peer, tag, dtype) */
static PyObject *messages_send(PyObject *object, PyObject *args) {
  messages_object *self = (messages_object *)object;
  PyObject *x;
  const char *dtype;
  int peer, tag;
  if (!PyArg_ParseTuple(args, "Oiiz:send", &x, &peer, &tag, &dtype)) return NULL;
  operands *o = operands_open(self->comm, x, -1, dtype, true, OPERANDS_HOST);
  if (o == NULL) return NULL;
  gil_release();
  ring_status status =
      ring_messages_send(self->messages, o->in.buffer.buf, o->in.count, o->in.dtype, peer, tag);
  gil_take();
  Py_XDECREF(operands_finish(o, status == RING_OK));
  if (PyErr_Occurred()) return NULL;
  if (status != RING_OK) return messages_raise(self, status);
  Py_RETURN_NONE;
}

/* recv_start(source, tag, out, dtype): out is None for an array that is made. */
static PyObject *messages_recv_start(PyObject *object, PyObject *args) {
  messages_object *self = (messages_object *)object;
  PyObject *out;
  const char *dtype;
  int source, tag;
  operands *o = NULL;
  if (!PyArg_ParseTuple(args, "iiOz:recv", &source, &tag, &out, &dtype)) return NULL;
  if (out != Py_None) {
    o = operands_open(self->comm, out, -1, dtype, false, OPERANDS_HOST);
    if (o == NULL || operands_result(o, self->comm, out, OPERANDS_SAME) < 0) return NULL;
  }
  return make_transfer(self, o, true, source, tag);
}

/* probe(source, tag, waits): (source, tag, dtype, count), or None. */
static PyObject *messages_probe(PyObject *object, PyObject *args) {
  messages_object *self = (messages_object *)object;
  ring_message_info info;
  int source, tag, waits, found = 1;
  if (!PyArg_ParseTuple(args, "iip:probe", &source, &tag, &waits)) return NULL;
  gil_release();
  ring_status status = waits ? ring_messages_probe(self->messages, source, tag, &info)
                             : ring_messages_iprobe(self->messages, source, tag, &found, &info);
  gil_take();
  if (PyErr_Occurred()) return NULL;
  if (status != RING_OK) return messages_raise(self, status);
  if (found) return info_tuple(&info);
  Py_RETURN_NONE;
}

/* ---- Life --------------------------------------------------------------------------------- */

PyObject *messages_open(PyObject *module, PyObject *comm) {
  module_state *state = PyModule_GetState(module);
  if (!PyObject_TypeCheck(comm, state->comm_type)) {
    PyErr_SetString(PyExc_TypeError, "messages_open() takes a Communicator");
    return NULL;
  }
  messages_object *self = (messages_object *)PyType_GenericAlloc(state->messages_type, 0);
  if (self == NULL) return NULL;
  Py_INCREF(comm);
  self->comm = (comm_object *)comm;
  comm_enter(self->comm);
  ring_status status = ring_messages_open(self->comm->comm, &self->messages);
  if (comm_leave(self->comm, status)) return (PyObject *)self;
  Py_DECREF((PyObject *)self);
  return NULL;
}

static PyObject *messages_close(PyObject *object, PyObject *unused) {
  (void)unused;
  messages_object *self = (messages_object *)object;
  gil_release();
  ring_status status = ring_messages_close(self->messages);
  gil_take();
  if (PyErr_Occurred()) return NULL;
  if (status != RING_OK) return messages_raise(self, status);
  Py_RETURN_NONE;
}

static PyObject *messages_abort(PyObject *object, PyObject *args) {
  const char *reason;
  if (!PyArg_ParseTuple(args, "z:abort", &reason)) return NULL;
  gil_release();
  ring_messages_abort(((messages_object *)object)->messages, reason);
  gil_take();
  Py_RETURN_NONE;
}

static void messages_dealloc(PyObject *object) {
  messages_object *self = (messages_object *)object;
  if (self->messages && !gil_in_hook() && !gil_is_ending()) {
    gil_release();
    ring_messages_free(self->messages);
    gil_take();
  }
  Py_CLEAR(self->comm);
  object_free(object);
}

OBJECT_REFUSES(messages_new, "Communicator.messages() opens messages, and their methods start"
                             " transfers")

static PyMethodDef messages_methods[] = {
    {"send", messages_send, METH_VARARGS, NULL},
    {"send_start", messages_send_start, METH_VARARGS, NULL},
    {"recv_start", messages_recv_start, METH_VARARGS, NULL},
    {"probe", messages_probe, METH_VARARGS, NULL},
    {"close", messages_close, METH_NOARGS, NULL},
    {"abort", messages_abort, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot messages_slots[] = {
    {Py_tp_new, messages_new},
    {Py_tp_dealloc, messages_dealloc},
    {Py_tp_methods, messages_methods},
    {0, NULL},
};

PyType_Spec messages_type_spec = {
    .name = "sparkring._core.MessagesHandle",
    .basicsize = sizeof(messages_object),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = messages_slots,
};

static PyMethodDef transfer_methods[] = {
    {"wait", transfer_wait, METH_NOARGS, NULL},
    {"test", transfer_test, METH_NOARGS, NULL},
    {"cancel", transfer_cancel, METH_NOARGS, NULL},
    {"info", transfer_info, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot transfer_slots[] = {
    {Py_tp_new, messages_new},
    {Py_tp_dealloc, transfer_dealloc},
    {Py_tp_methods, transfer_methods},
    {0, NULL},
};

PyType_Spec transfer_type_spec = {
    .name = "sparkring._core.TransferHandle",
    .basicsize = sizeof(transfer_object),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = transfer_slots,
};
