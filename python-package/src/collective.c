/* SPDX-License-Identifier: Apache-2.0
 *
 * A collective in five steps: view the input; make or view the output; one call of the core without
 * the interpreter lock; a status becomes an exception; return the output. The first two and the last
 * are the same for all and live in `operands`.
 */
#include "collective.h"

#include "error.h"
#include "view.h"

#define COLLECTIVE_OP_NAME(name, value, text) ", " text
#define OP_NAMES (&(RING_OP_MAP(COLLECTIVE_OP_NAME))[2])

typedef struct operands {
  PyObject *input;
  PyObject *output;
  view in, out;
  bool scalar; /* a number went in, so a number comes out */
} operands;

static void operands_close(operands *operands) {
  view_close(&operands->in);
  view_close(&operands->out);
  Py_CLEAR(operands->input);
  Py_CLEAR(operands->output);
}

/* True for Python's and NumPy's numbers, which NumPy turns into 0-d arrays; -1 with an exception. */
static int is_scalar(module_state *state, PyObject *x) {
  if (PyLong_Check(x) || PyFloat_Check(x)) return 1;
  return PyObject_IsInstance(x, state->numpy_scalar);
}

/* What the core cannot read where it is, NumPy copies: contiguous in C order, and aligned. */
static int pack_input(operands *operands, module_state *state, const char *dtype) {
  view_close(&operands->in);
  PyObject *packed =
      PyObject_CallMethod(state->numpy, "require", "OOs", operands->input, Py_None, "CA");
  if (packed == NULL) return -1;
  Py_DECREF(operands->input);
  operands->input = packed;
  return view_open(&operands->in, state, packed, "x", dtype);
}

static int open_input(operands *operands, module_state *state, PyObject *x, const char *dtype,
                      bool read) {
  int scalar = is_scalar(state, x);
  if (scalar < 0) return -1;
  operands->scalar = scalar;
  if (scalar)
    operands->input = PyObject_CallMethod(state->numpy, "asarray", "O", x);
  else
    Py_INCREF(operands->input = x);
  if (operands->input == NULL) return -1;
  if (view_open(&operands->in, state, operands->input, "x", dtype) < 0) return -1;
  if (operands->in.direct || !read) return 0;
  return pack_input(operands, state, dtype);
}

/* A new array like the input (with a first dimension of `rows` unless that is 0). An array passes on
 * its own dtype; any other buffer gets the one of the same name, where 16-bit words stay words. */
static PyObject *make_output(operands *operands, module_state *state, int rows) {
  int is_array = PyObject_IsInstance(operands->input, state->numpy_array);
  if (is_array < 0) return NULL;
  const view *in = &operands->in;
  const char *name = in->dtype == RING_BFLOAT16 ? "uint16" : view_dtype_name(in);
  PyObject *dtype =
      is_array ? PyObject_GetAttrString(operands->input, "dtype") : PyUnicode_FromString(name);
  PyObject *shape = view_shape(in, rows);
  PyObject *output = NULL;
  if (dtype && shape) output = PyObject_CallMethod(state->numpy, "empty", "OO", shape, dtype);
  Py_XDECREF(dtype);
  Py_XDECREF(shape);
  return output;
}

/* The core reads input while it writes output, so they may only be the same memory: here, the part
 * of the output that is this rank's. */
static int check_overlap(const operands *operands, module_state *state, size_t offset) {
  const char *in = operands->in.buffer.buf, *out = operands->out.buffer.buf;
  size_t in_bytes = (size_t)operands->in.buffer.len, out_bytes = (size_t)operands->out.buffer.len;
  bool apart = in + in_bytes <= out || out + out_bytes <= in;
  if (apart || in == out + offset * in_bytes) return 0;
  error_invalid(state, "out overlaps x without being in place: pass a copy of x");
  return -1;
}

/* Views x and out, or makes out when it is None. rows: ranks whose input the output holds, one below
 * the other; 0 for an output like the input. read: whether this rank's input counts. */
static int operands_open(operands *operands, comm_object *self, PyObject *x, PyObject *out,
                         const char *dtype, int rows, bool read) {
  module_state *state = comm_state(self);
  *operands = (struct operands){0};
  if (open_input(operands, state, x, dtype, read) < 0) goto failed;
  if (out == Py_None)
    operands->output = make_output(operands, state, rows);
  else
    Py_INCREF(operands->output = out);
  if (operands->output == NULL) goto failed;
  operands->scalar = operands->scalar && out == Py_None && rows == 0;
  if (view_open(&operands->out, state, operands->output, "out", dtype) < 0) goto failed;
  size_t count = operands->in.count * (size_t)(rows ? rows : 1);
  if (view_check_output(&operands->out, state, &operands->in, count) < 0) goto failed;
  size_t offset = rows ? (size_t)ring_comm_rank(self->comm) : 0;
  if (read && check_overlap(operands, state, offset) < 0) goto failed;
  return 0;
failed:
  operands_close(operands);
  return -1;
}

/* To another rank a bool is a uint8, which may hold any number: what is not 0 becomes True. */
static void settle(const view *out) {
  char *byte = out->buffer.buf;
  for (size_t i = 0; out->boolean && i < out->count; i++) byte[i] = byte[i] != 0;
}

/* Closes the operands. Returns the output, or NULL when the call raised. */
static PyObject *operands_finish(operands *operands, bool succeeded) {
  PyObject *result = NULL;
  if (succeeded) settle(&operands->out);
  if (succeeded) Py_INCREF(result = operands->output);
  bool scalar = operands->scalar;
  operands_close(operands);
  if (result == NULL || !scalar) return result;
  PyObject *nowhere = PyTuple_New(0);
  PyObject *number = nowhere ? PyObject_GetItem(result, nowhere) : NULL;
  Py_XDECREF(nowhere);
  Py_DECREF(result);
  return number;
}

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

PyObject *collective_allreduce(PyObject *object, PyObject *args, PyObject *kwargs) {
  static char *names[] = {"x", "op", "out", "dtype", NULL};
  comm_object *self = (comm_object *)object;
  PyObject *x, *out = Py_None;
  const char *op_name = "sum", *dtype = NULL;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|s$Oz:allreduce", names, &x, &op_name, &out,
                                   &dtype))
    return NULL;
  ring_op op;
  operands o;
  if (parse_op(comm_state(self), op_name, &op) < 0) return NULL;
  if (operands_open(&o, self, x, out, dtype, 0, true) < 0) return NULL;
  if (check_boolean(comm_state(self), &o.in, op) < 0) return operands_finish(&o, false);
  comm_enter(self);
  ring_status status =
      ring_allreduce(self->comm, o.in.buffer.buf, o.out.buffer.buf, o.in.count, o.in.dtype, op);
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
  bool is_root = ring_comm_rank(self->comm) == root;
  operands o;
  if (operands_open(&o, self, x, out, dtype, 0, is_root) < 0) return NULL;
  comm_enter(self);
  ring_status status = ring_broadcast(self->comm, is_root ? o.in.buffer.buf : NULL,
                                      o.out.buffer.buf, o.in.count, o.in.dtype, root);
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
  if (operands_open(&o, self, x, out, dtype, ring_comm_size(self->comm), true) < 0) return NULL;
  comm_enter(self);
  ring_status status =
      ring_allgather(self->comm, o.in.buffer.buf, o.out.buffer.buf, o.in.count, o.in.dtype);
  return operands_finish(&o, comm_leave(self, status));
}

PyObject *collective_barrier(PyObject *object, PyObject *unused) {
  (void)unused;
  comm_object *self = (comm_object *)object;
  comm_enter(self);
  if (!comm_leave(self, ring_barrier(self->comm))) return NULL;
  Py_RETURN_NONE;
}
