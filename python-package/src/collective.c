/* SPDX-License-Identifier: Apache-2.0
 *
 * A collective in five steps: view the input; make or view the output; call the core without the
 * interpreter lock; convert a status to an exception; return the output. The first two steps and
 * the last step are the same for all collectives and live in operands.c.
 */
#include "collective.h"

#include "error.h"

#define COLLECTIVE_OP_NAME(name, text) ", " text
#define OP_NAMES (&(RING_OP_MAP(COLLECTIVE_OP_NAME) RING_OP_ALIAS_MAP(COLLECTIVE_OP_NAME))[2])

int collective_parse_op(module_state *state, const char *name, ring_op *op) {
  if (ring_op_parse(name, op) == RING_OK) return 0;
  error_invalid(state, "unknown op \"%s\": one of %s", name, OP_NAMES);
  return -1;
}

/* Parses the op and views x. `on_host`: the name of a call that takes no arrays on GPUs, or NULL. */
static operands *open_reduction(comm_object *self, const arguments *a, ring_op *op,
                                const char *on_host) {
  module_state *state = comm_state(self);
  if (collective_parse_op(state, a->op, op) < 0) return NULL;
  operands *opened = on_host ? operands_open_on_host(self, a->x, a->dtype, true, on_host)
                             : operands_open(self, a->x, -1, a->dtype, true, OPERANDS_GPU);
  if (opened == NULL) return NULL;
  opened->prescale = a->prescale;
  opened->postscale = a->postscale;
  return opened;
}

static PyObject *allreduce_call(comm_object *self, const arguments_given *given) {
  static const arguments_form form = {"allreduce",
                                      6,
                                      {ARGUMENTS_X, ARGUMENTS_OP, ARGUMENTS_OUT, ARGUMENTS_DTYPE,
                                       ARGUMENTS_PRESCALE, ARGUMENTS_POSTSCALE}};
  arguments a;
  if (arguments_read(&a, comm_state(self), &form, given) < 0) return NULL;
  ring_op op;
  operands *o = open_reduction(self, &a, &op, NULL);
  if (o == NULL) return NULL;
  if (operands_result(o, self, a.out, OPERANDS_SAME) < 0) return NULL;
  CALL_RETURN(self, o, given->request, allreduce, o->in.buffer.buf, o->out.buffer.buf, o->in.count,
              o->in.dtype, op);
}

static PyObject *reduce_call(comm_object *self, const arguments_given *given) {
  static const arguments_form form = {"reduce",
                                      7,
                                      {ARGUMENTS_X, ARGUMENTS_OP, ARGUMENTS_ROOT, ARGUMENTS_OUT,
                                       ARGUMENTS_DTYPE, ARGUMENTS_PRESCALE, ARGUMENTS_POSTSCALE}};
  arguments a;
  if (arguments_read(&a, comm_state(self), &form, given) < 0) return NULL;
  bool is_root = ring_comm_rank(self->comm) == a.root;
  ring_op op;
  operands *o = open_reduction(self, &a, &op, NULL);
  if (o == NULL) return NULL;
  if (is_root && operands_result(o, self, a.out, OPERANDS_SAME) < 0) return NULL;
  CALL_RETURN(self, o, given->request, reduce, o->in.buffer.buf, o->out.buffer.buf, o->in.count,
              o->in.dtype, op, a.root);
}

static PyObject *reduce_scatter_call(comm_object *self, const arguments_given *given) {
  static const arguments_form form = {"reduce_scatter",
                                      6,
                                      {ARGUMENTS_X, ARGUMENTS_OP, ARGUMENTS_OUT, ARGUMENTS_DTYPE,
                                       ARGUMENTS_PRESCALE, ARGUMENTS_POSTSCALE}};
  arguments a;
  if (arguments_read(&a, comm_state(self), &form, given) < 0) return NULL;
  ring_op op;
  operands *o = open_reduction(self, &a, &op, NULL);
  if (o == NULL) return NULL;
  if (operands_result(o, self, a.out, OPERANDS_PART) < 0) return NULL;
  CALL_RETURN(self, o, given->request, reduce_scatter, o->in.buffer.buf, o->out.buffer.buf,
              o->out.count, o->in.dtype, op);
}

/* The operands of a scan or an exscan, which take no arrays on GPUs. */
static operands *open_scan(comm_object *self, const arguments_given *given, const char *method,
                           ring_op *op) {
  const arguments_form form = {
      method, 4, {ARGUMENTS_X, ARGUMENTS_OP, ARGUMENTS_OUT, ARGUMENTS_DTYPE}};
  arguments a;
  if (arguments_read(&a, comm_state(self), &form, given) < 0) return NULL;
  operands *o = open_reduction(self, &a, op, method);
  return o == NULL || operands_result(o, self, a.out, OPERANDS_SAME) < 0 ? NULL : o;
}

static PyObject *scan_call(comm_object *self, const arguments_given *given) {
  ring_op op;
  operands *o = open_scan(self, given, "scan", &op);
  if (o == NULL) return NULL;
  CALL_RETURN(self, o, given->request, scan, o->in.buffer.buf, o->out.buffer.buf, o->in.count,
              o->in.dtype, op);
}

static PyObject *exscan_call(comm_object *self, const arguments_given *given) {
  ring_op op;
  operands *o = open_scan(self, given, "exscan", &op);
  if (o == NULL) return NULL;
  CALL_RETURN(self, o, given->request, exscan, o->in.buffer.buf, o->out.buffer.buf, o->in.count,
              o->in.dtype, op);
}

static PyObject *broadcast_call(comm_object *self, const arguments_given *given) {
  static const arguments_form form = {
      "broadcast", 4, {ARGUMENTS_X, ARGUMENTS_ROOT, ARGUMENTS_OUT, ARGUMENTS_DTYPE}};
  arguments a;
  if (arguments_read(&a, comm_state(self), &form, given) < 0) return NULL;
  operands *o =
      operands_open(self, a.x, -1, a.dtype, ring_comm_rank(self->comm) == a.root, OPERANDS_GPU);
  if (o == NULL) return NULL;
  if (operands_result(o, self, a.out, OPERANDS_SAME) < 0) return NULL;
  CALL_RETURN(self, o, given->request, broadcast, o->read ? o->in.buffer.buf : NULL,
              o->out.buffer.buf, o->in.count, o->in.dtype, a.root);
}

static PyObject *allgather_call(comm_object *self, const arguments_given *given) {
  static const arguments_form form = {
      "allgather", 3, {ARGUMENTS_X, ARGUMENTS_OUT, ARGUMENTS_DTYPE}};
  arguments a;
  if (arguments_read(&a, comm_state(self), &form, given) < 0) return NULL;
  operands *o = operands_open(self, a.x, -1, a.dtype, true, OPERANDS_GPU);
  if (o == NULL) return NULL;
  if (operands_result(o, self, a.out, OPERANDS_ALL) < 0) return NULL;
  CALL_RETURN(self, o, given->request, allgather, o->in.buffer.buf, o->out.buffer.buf, o->in.count,
              o->in.dtype);
}

static PyObject *gather_call(comm_object *self, const arguments_given *given) {
  static const arguments_form form = {
      "gather", 4, {ARGUMENTS_X, ARGUMENTS_ROOT, ARGUMENTS_OUT, ARGUMENTS_DTYPE}};
  arguments a;
  if (arguments_read(&a, comm_state(self), &form, given) < 0) return NULL;
  bool is_root = ring_comm_rank(self->comm) == a.root;
  operands *o = operands_open_on_host(self, a.x, a.dtype, true, form.method);
  if (o == NULL) return NULL;
  if (is_root && operands_result(o, self, a.out, OPERANDS_ALL) < 0) return NULL;
  CALL_RETURN(self, o, given->request, gather, o->in.buffer.buf, o->out.buffer.buf, o->in.count,
              o->in.dtype, a.root);
}

static PyObject *scatter_call(comm_object *self, const arguments_given *given) {
  static const arguments_form form = {
      "scatter", 4, {ARGUMENTS_X, ARGUMENTS_ROOT, ARGUMENTS_OUT, ARGUMENTS_DTYPE}};
  arguments a;
  if (arguments_read(&a, comm_state(self), &form, given) < 0) return NULL;
  operands *o =
      operands_open_on_host(self, a.x, a.dtype, ring_comm_rank(self->comm) == a.root, form.method);
  if (o == NULL) return NULL;
  if (operands_result(o, self, a.out, OPERANDS_PART) < 0) return NULL;
  CALL_RETURN(self, o, given->request, scatter, o->read ? o->in.buffer.buf : NULL,
              o->out.buffer.buf, o->out.count, o->in.dtype, a.root);
}

static PyObject *alltoall_call(comm_object *self, const arguments_given *given) {
  static const arguments_form form = {"alltoall", 3, {ARGUMENTS_X, ARGUMENTS_OUT, ARGUMENTS_DTYPE}};
  arguments a;
  if (arguments_read(&a, comm_state(self), &form, given) < 0) return NULL;
  operands *o = operands_open(self, a.x, -1, a.dtype, true, OPERANDS_GPU);
  if (o == NULL) return NULL;
  if (operands_result(o, self, a.out, OPERANDS_MIXED) < 0) return NULL;
  size_t count = o->in.count / (size_t)ring_comm_size(self->comm);
  CALL_RETURN(self, o, given->request, alltoall, o->in.buffer.buf, o->out.buffer.buf, count,
              o->in.dtype);
}

/* No input and no output. */
static PyObject *finish_nothing(operands *none, bool succeeded) {
  (void)none;
  if (!succeeded) return NULL;
  Py_RETURN_NONE;
}

PyObject *collective_barrier(PyObject *object, PyObject *kind) {
  comm_object *self = (comm_object *)object;
  PyTypeObject *request;
  call call;
  if (call_read_request(&request, self, kind) < 0) return NULL;
  if (call_enter(&call, self, NULL, finish_nothing, "barrier", request) < 0) return NULL;
  return call_leave(&call, request ? ring_barrier_start(self->comm, &call.request->request)
                                   : ring_barrier(self->comm));
}

CALL_DEFINE(collective, allreduce)
CALL_DEFINE(collective, reduce)
CALL_DEFINE(collective, reduce_scatter)
CALL_DEFINE(collective, scan)
CALL_DEFINE(collective, exscan)
CALL_DEFINE(collective, broadcast)
CALL_DEFINE(collective, allgather)
CALL_DEFINE(collective, gather)
CALL_DEFINE(collective, scatter)
CALL_DEFINE(collective, alltoall)
