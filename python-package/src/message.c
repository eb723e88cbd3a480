/* SPDX-License-Identifier: Apache-2.0 */
#include "message.h"

PyObject *message_send(PyObject *object, PyObject *const *values, Py_ssize_t positional,
                       PyObject *names) {
  static const arguments_form form = {
      "send", 2, 2, 3, {ARGUMENTS_X, ARGUMENTS_PEER, ARGUMENTS_DTYPE}};
  const arguments_given given = {values, positional, names, false};
  comm_object *self = (comm_object *)object;
  arguments a;
  call call;
  if (arguments_read(&a, comm_state(self), &form, &given) < 0) return NULL;
  operands *o = operands_open(self, a.x, -1, a.dtype, true);
  if (o == NULL || call_enter(&call, self, o, operands_finish, "send", false) < 0) return NULL;
  return call_leave(&call,
                    ring_send(self->comm, o->in.buffer.buf, o->in.count, o->in.dtype, a.peer));
}

PyObject *message_recv(PyObject *object, PyObject *const *values, Py_ssize_t positional,
                       PyObject *names) {
  static const arguments_form form = {
      "recv", 2, 2, 4, {ARGUMENTS_X, ARGUMENTS_PEER, ARGUMENTS_OUT, ARGUMENTS_DTYPE}};
  const arguments_given given = {values, positional, names, false};
  comm_object *self = (comm_object *)object;
  arguments a;
  call call;
  if (arguments_read(&a, comm_state(self), &form, &given) < 0) return NULL;
  operands *o = operands_open(self, a.x, -1, a.dtype, false);
  if (o == NULL || operands_result(o, self, a.out, OPERANDS_SAME) < 0 ||
      call_enter(&call, self, o, operands_finish, "recv", false) < 0)
    return NULL;
  return call_leave(&call,
                    ring_recv(self->comm, o->out.buffer.buf, o->out.count, o->out.dtype, a.peer));
}
