/* SPDX-License-Identifier: Apache-2.0 */
#include "message.h"

static PyObject *send_call(comm_object *self, const arguments_given *given) {
  static const arguments_form form = {
      "send", 2, 2, 3, {ARGUMENTS_X, ARGUMENTS_PEER, ARGUMENTS_DTYPE}};
  arguments a;
  if (arguments_read(&a, comm_state(self), &form, given) < 0) return NULL;
  operands *o = operands_open(self, a.x, -1, a.dtype, true);
  if (o == NULL) return NULL;
  CALL_RETURN(self, o, given->start, send, o->in.buffer.buf, o->in.count, o->in.dtype, a.peer);
}

static PyObject *recv_call(comm_object *self, const arguments_given *given) {
  static const arguments_form form = {
      "recv", 2, 2, 4, {ARGUMENTS_X, ARGUMENTS_PEER, ARGUMENTS_OUT, ARGUMENTS_DTYPE}};
  arguments a;
  if (arguments_read(&a, comm_state(self), &form, given) < 0) return NULL;
  operands *o = operands_open(self, a.x, -1, a.dtype, false);
  if (o == NULL) return NULL;
  if (operands_result(o, self, a.out, OPERANDS_SAME) < 0) return NULL;
  CALL_RETURN(self, o, given->start, recv, o->out.buffer.buf, o->out.count, o->out.dtype, a.peer);
}

CALL_DEFINE(message, send)
CALL_DEFINE(message, recv)
