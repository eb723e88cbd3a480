/* SPDX-License-Identifier: Apache-2.0 */
#include "message.h"

static PyObject *send_call(comm_object *self, PyObject *args, PyObject *kwargs, bool start) {
  static char *names[] = {"x", "peer", "dtype", NULL};
  PyObject *x;
  const char *dtype = NULL;
  int peer;
  const char *format = CALL_FORMAT(start, "Oi|$z", "send");
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, format, names, &x, &peer, &dtype)) return NULL;
  operands *o = operands_open(self, x, -1, dtype, true);
  if (o == NULL) return NULL;
  CALL_RETURN(self, o, start, send, o->in.buffer.buf, o->in.count, o->in.dtype, peer);
}

static PyObject *recv_call(comm_object *self, PyObject *args, PyObject *kwargs, bool start) {
  static char *names[] = {"x", "peer", "out", "dtype", NULL};
  PyObject *x, *out = Py_None;
  const char *dtype = NULL;
  int peer;
  const char *format = CALL_FORMAT(start, "Oi|$Oz", "recv");
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, format, names, &x, &peer, &out, &dtype))
    return NULL;
  operands *o = operands_open(self, x, -1, dtype, false);
  if (o == NULL) return NULL;
  if (operands_result(o, self, out, OPERANDS_SAME) < 0) return NULL;
  CALL_RETURN(self, o, start, recv, o->out.buffer.buf, o->out.count, o->out.dtype, peer);
}

CALL_DEFINE(message, send)
CALL_DEFINE(message, recv)
