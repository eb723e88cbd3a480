/* SPDX-License-Identifier: Apache-2.0 */
#include "message.h"

#include "operands.h"

PyObject *message_send(PyObject *object, PyObject *args, PyObject *kwargs) {
  static char *names[] = {"x", "peer", "dtype", NULL};
  comm_object *self = (comm_object *)object;
  PyObject *x;
  const char *dtype = NULL;
  int peer;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "Oi|$z:send", names, &x, &peer, &dtype))
    return NULL;
  operands o;
  if (operands_open(&o, self, x, dtype, true) < 0) return NULL;
  comm_enter(self);
  ring_status status = ring_send(self->comm, o.in.buffer.buf, o.in.count, o.in.dtype, peer);
  return operands_finish(&o, comm_leave(self, status));
}

PyObject *message_recv(PyObject *object, PyObject *args, PyObject *kwargs) {
  static char *names[] = {"x", "peer", "out", "dtype", NULL};
  comm_object *self = (comm_object *)object;
  PyObject *x, *out = Py_None;
  const char *dtype = NULL;
  int peer;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "Oi|$Oz:recv", names, &x, &peer, &out, &dtype))
    return NULL;
  operands o;
  if (operands_open(&o, self, x, dtype, false) < 0) return NULL;
  if (operands_result(&o, self, out, OPERANDS_SAME) < 0) return NULL;
  comm_enter(self);
  ring_status status = ring_recv(self->comm, o.out.buffer.buf, o.out.count, o.out.dtype, peer);
  return operands_finish(&o, comm_leave(self, status));
}
