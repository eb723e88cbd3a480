/* SPDX-License-Identifier: Apache-2.0
 *
 * A collective in five steps: view the input; make or view the output; one call of the core without
 * the interpreter lock; a status becomes an exception; return the output. The first two and the last
 * are the same for all and live in operands.c.
 */
#include "collective.h"

#include "error.h"
#include "operands.h"

#define COLLECTIVE_OP_NAME(name, value, text) ", " text
#define OP_NAMES (&(RING_OP_MAP(COLLECTIVE_OP_NAME))[2])

static int parse_op(module_state *state, const char *name, ring_op *op) {
  if (ring_op_parse(name, op) == RING_OK) return 0;
  error_invalid(state, "unknown op \"%s\": one of %s", name, OP_NAMES);
  return -1;
}

/* Sums of bool would not be bool, so those take the logical operations only. */
static int check_boolean(module_state *state, const view *in, ring_op op) {
  if (!in->boolean || op == RING_LAND || op == RING_LOR) return 0;
  error_invalid(state,
                "op \"%s\" is not defined on bool: use \"land\" or \"lor\", or count with"
                " x.astype(\"int32\")",
                ring_op_name(op));
  return -1;
}

/* Parses the op and views x. */
static int open_reduction(operands *operands, comm_object *self, PyObject *x, const char *dtype,
                          const char *op_name, ring_op *op) {
  module_state *state = comm_state(self);
  if (parse_op(state, op_name, op) < 0) return -1;
  if (operands_open(operands, self, x, dtype, true) < 0) return -1;
  if (check_boolean(state, &operands->in, *op) == 0) return 0;
  operands_finish(operands, false);
  return -1;
}

PyObject *collective_allreduce(PyObject *object, PyObject *args, PyObject *kwargs) {
  static char *names[] = {"x", "op", "out", "dtype", NULL};
  comm_object *self = (comm_object *)object;
  PyObject *x, *out = Py_None;
  const char *op_name = "sum", *dtype = NULL;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|s$Oz:allreduce", names, &x, &op_name, &out,
                                   &dtype))
    return NULL;
  operands o;
  ring_op op;
  if (open_reduction(&o, self, x, dtype, op_name, &op) < 0) return NULL;
  if (operands_result(&o, self, out, OPERANDS_SAME) < 0) return NULL;
  comm_enter(self);
  ring_status status =
      ring_allreduce(self->comm, o.in.buffer.buf, o.out.buffer.buf, o.in.count, o.in.dtype, op);
  return operands_finish(&o, comm_leave(self, status));
}

PyObject *collective_reduce(PyObject *object, PyObject *args, PyObject *kwargs) {
  static char *names[] = {"x", "op", "root", "out", "dtype", NULL};
  comm_object *self = (comm_object *)object;
  PyObject *x, *out = Py_None;
  const char *op_name = "sum", *dtype = NULL;
  int root = 0;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|si$Oz:reduce", names, &x, &op_name, &root, &out,
                                   &dtype))
    return NULL;
  bool is_root = ring_comm_rank(self->comm) == root;
  operands o;
  ring_op op;
  if (open_reduction(&o, self, x, dtype, op_name, &op) < 0) return NULL;
  if (is_root && operands_result(&o, self, out, OPERANDS_SAME) < 0) return NULL;
  comm_enter(self);
  ring_status status =
      ring_reduce(self->comm, o.in.buffer.buf, o.out.buffer.buf, o.in.count, o.in.dtype, op, root);
  return operands_finish(&o, comm_leave(self, status));
}

PyObject *collective_reduce_scatter(PyObject *object, PyObject *args, PyObject *kwargs) {
  static char *names[] = {"x", "op", "out", "dtype", NULL};
  comm_object *self = (comm_object *)object;
  PyObject *x, *out = Py_None;
  const char *op_name = "sum", *dtype = NULL;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|s$Oz:reduce_scatter", names, &x, &op_name, &out,
                                   &dtype))
    return NULL;
  operands o;
  ring_op op;
  if (open_reduction(&o, self, x, dtype, op_name, &op) < 0) return NULL;
  if (operands_result(&o, self, out, OPERANDS_PART) < 0) return NULL;
  comm_enter(self);
  ring_status status = ring_reduce_scatter(self->comm, o.in.buffer.buf, o.out.buffer.buf,
                                           o.out.count, o.in.dtype, op);
  return operands_finish(&o, comm_leave(self, status));
}

PyObject *collective_broadcast(PyObject *object, PyObject *args, PyObject *kwargs) {
  static char *names[] = {"x", "root", "out", "dtype", NULL};
  comm_object *self = (comm_object *)object;
  PyObject *x, *out = Py_None;
  const char *dtype = NULL;
  int root = 0;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|i$Oz:broadcast", names, &x, &root, &out,
                                   &dtype))
    return NULL;
  operands o;
  if (operands_open(&o, self, x, dtype, ring_comm_rank(self->comm) == root) < 0) return NULL;
  if (operands_result(&o, self, out, OPERANDS_SAME) < 0) return NULL;
  comm_enter(self);
  ring_status status = ring_broadcast(self->comm, o.read ? o.in.buffer.buf : NULL, o.out.buffer.buf,
                                      o.in.count, o.in.dtype, root);
  return operands_finish(&o, comm_leave(self, status));
}

PyObject *collective_allgather(PyObject *object, PyObject *args, PyObject *kwargs) {
  static char *names[] = {"x", "out", "dtype", NULL};
  comm_object *self = (comm_object *)object;
  PyObject *x, *out = Py_None;
  const char *dtype = NULL;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|$Oz:allgather", names, &x, &out, &dtype))
    return NULL;
  operands o;
  if (operands_open(&o, self, x, dtype, true) < 0) return NULL;
  if (operands_result(&o, self, out, OPERANDS_ALL) < 0) return NULL;
  comm_enter(self);
  ring_status status =
      ring_allgather(self->comm, o.in.buffer.buf, o.out.buffer.buf, o.in.count, o.in.dtype);
  return operands_finish(&o, comm_leave(self, status));
}

PyObject *collective_gather(PyObject *object, PyObject *args, PyObject *kwargs) {
  static char *names[] = {"x", "root", "out", "dtype", NULL};
  comm_object *self = (comm_object *)object;
  PyObject *x, *out = Py_None;
  const char *dtype = NULL;
  int root = 0;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|i$Oz:gather", names, &x, &root, &out, &dtype))
    return NULL;
  bool is_root = ring_comm_rank(self->comm) == root;
  operands o;
  if (operands_open(&o, self, x, dtype, true) < 0) return NULL;
  if (is_root && operands_result(&o, self, out, OPERANDS_ALL) < 0) return NULL;
  comm_enter(self);
  ring_status status =
      ring_gather(self->comm, o.in.buffer.buf, o.out.buffer.buf, o.in.count, o.in.dtype, root);
  return operands_finish(&o, comm_leave(self, status));
}

PyObject *collective_scatter(PyObject *object, PyObject *args, PyObject *kwargs) {
  static char *names[] = {"x", "root", "out", "dtype", NULL};
  comm_object *self = (comm_object *)object;
  PyObject *x, *out = Py_None;
  const char *dtype = NULL;
  int root = 0;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|i$Oz:scatter", names, &x, &root, &out, &dtype))
    return NULL;
  operands o;
  if (operands_open(&o, self, x, dtype, ring_comm_rank(self->comm) == root) < 0) return NULL;
  if (operands_result(&o, self, out, OPERANDS_PART) < 0) return NULL;
  comm_enter(self);
  ring_status status = ring_scatter(self->comm, o.read ? o.in.buffer.buf : NULL, o.out.buffer.buf,
                                    o.out.count, o.in.dtype, root);
  return operands_finish(&o, comm_leave(self, status));
}

PyObject *collective_alltoall(PyObject *object, PyObject *args, PyObject *kwargs) {
  static char *names[] = {"x", "out", "dtype", NULL};
  comm_object *self = (comm_object *)object;
  PyObject *x, *out = Py_None;
  const char *dtype = NULL;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|$Oz:alltoall", names, &x, &out, &dtype))
    return NULL;
  operands o;
  if (operands_open(&o, self, x, dtype, true) < 0) return NULL;
  if (operands_result(&o, self, out, OPERANDS_MIXED) < 0) return NULL;
  size_t count = o.in.count / (size_t)ring_comm_size(self->comm);
  comm_enter(self);
  ring_status status =
      ring_alltoall(self->comm, o.in.buffer.buf, o.out.buffer.buf, count, o.in.dtype);
  return operands_finish(&o, comm_leave(self, status));
}

PyObject *collective_barrier(PyObject *object, PyObject *unused) {
  (void)unused;
  comm_object *self = (comm_object *)object;
  comm_enter(self);
  if (!comm_leave(self, ring_barrier(self->comm))) return NULL;
  Py_RETURN_NONE;
}
