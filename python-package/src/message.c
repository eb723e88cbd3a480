/* SPDX-License-Identifier: Apache-2.0 */
#include "message.h"

static PyObject *send_call(comm_object *self, const arguments_given *given) {
  static const arguments_form form = {"send", 3, {ARGUMENTS_X, ARGUMENTS_PEER, ARGUMENTS_DTYPE}};
  arguments a;
  call call;
  if (arguments_read(&a, comm_state(self), &form, given) < 0) return NULL;
  operands *o = operands_open(self, a.x, -1, a.dtype, true, OPERANDS_OPEN_GPU);
  if (o == NULL || call_enter(&call, self, o, operands_finish, "send", NULL) < 0) return NULL;
  return call_leave(&call,
                    ring_send(self->comm, o->in.buffer.buf, o->in.count, o->in.dtype, a.peer));
}

static PyObject *recv_call(comm_object *self, const arguments_given *given) {
  static const arguments_form form = {
      "recv", 4, {ARGUMENTS_X, ARGUMENTS_PEER, ARGUMENTS_OUT, ARGUMENTS_DTYPE}};
  arguments a;
  call call;
  if (arguments_read(&a, comm_state(self), &form, given) < 0) return NULL;
  operands *o = operands_open(self, a.x, -1, a.dtype, false, OPERANDS_OPEN_GPU);
  if (o == NULL || operands_result(o, self, a.out, OPERANDS_SAME) < 0 ||
      call_enter(&call, self, o, operands_finish, "recv", NULL) < 0)
    return NULL;
  return call_leave(&call,
                    ring_recv(self->comm, o->out.buffer.buf, o->out.count, o->out.dtype, a.peer));
}

PyObject *message_send(PyObject *self, PyObject *const *values, Py_ssize_t count) {
  return send_call((comm_object *)self, &(arguments_given){values, count, NULL});
}

PyObject *message_recv(PyObject *self, PyObject *const *values, Py_ssize_t count) {
  return recv_call((comm_object *)self, &(arguments_given){values, count, NULL});
}
