/* SPDX-License-Identifier: Apache-2.0
 *
 * A part is a number of rows. A row is one element of the first dimension. Users count rows, and so
 * do the messages in which the ranks exchange their counts (int64, as in R). So ranks with rows of
 * different lengths get a mismatch. The core counts elements.
 */
#include "parts.h"

#include "bindings/rows.h"
#include "collective.h"
#include "error.h"

/* The concatenated parts of all ranks. */
typedef struct parts {
  int64_t *rows;
  size_t *elements;
  Py_ssize_t total; /* rows */
} parts;

static void parts_close(parts *parts) {
  PyMem_Free(parts->rows);
  PyMem_Free(parts->elements);
  *parts = (struct parts){0};
}

static int parts_alloc(parts *parts, int size) {
  parts->rows = PyMem_Calloc((size_t)size, sizeof(*parts->rows));
  parts->elements = PyMem_Calloc((size_t)size, sizeof(*parts->elements));
  if (parts->rows && parts->elements) return 0;
  parts_close(parts);
  PyErr_NoMemory();
  return -1;
}

static Py_ssize_t row_length(const view *in) {
  Py_ssize_t length = 1;
  for (int i = 1; i < in->buffer.ndim; i++) length *= in->buffer.shape[i];
  return length;
}

static Py_ssize_t row_bytes(const view *in) {
  return row_length(in) * in->buffer.itemsize;
}

/* Adds up the rows and counts their elements, which must fit into memory. */
static int parts_count(parts *parts, comm_object *self, const view *in) {
  Py_ssize_t length = row_length(in);
  int64_t most = PY_SSIZE_T_MAX / (row_bytes(in) ? row_bytes(in) : 1);
  parts->total = 0;
  for (int rank = 0; rank < ring_comm_size(self->comm); rank++) {
    int64_t rows = parts->rows[rank];
    if (rows < 0 || rows > most - parts->total) {
      error_invalid(comm_state(self), "counts[%d] is %lld: it must be 0 or more%s", rank,
                    (long long)rows, rows < 0 ? "" : ", and all together fit into memory");
      return -1;
    }
    parts->elements[rank] = (size_t)rows * (size_t)length;
    parts->total += (Py_ssize_t)rows;
  }
  return 0;
}

/* Reads the counts of the caller, one for each rank. */
static int parts_read(parts *parts, comm_object *self, PyObject *counts, const view *in) {
  int size = ring_comm_size(self->comm);
  PyObject *numbers = PySequence_Tuple(counts);
  if (numbers == NULL)
    return arguments_name_error("counts", "a list of whole numbers, one for each rank", counts);
  int failed = -1;
  Py_ssize_t length = PyTuple_Size(numbers);
  if (length != size) {
    error_invalid(comm_state(self),
                  "counts has %zd numbers and there are %d ranks: pass one for each rank", length,
                  size);
    goto out;
  }
  if (parts_alloc(parts, size) < 0) goto out;
  for (int rank = 0; rank < size; rank++) {
    char name[24];
    Py_ssize_t rows;
    PyOS_snprintf(name, sizeof name, "counts[%d]", rank);
    if (arguments_read_size(PyTuple_GetItem(numbers, rank), name, &rows) < 0) goto out;
    parts->rows[rank] = rows;
  }
  failed = parts_count(parts, self, in);
out:
  if (failed) parts_close(parts);
  Py_DECREF(numbers);
  return failed;
}

/* The counts of the caller must add up to the rows of x. */
static int parts_check_total(const parts *parts, comm_object *self, const view *in) {
  Py_ssize_t rows = in->buffer.shape[0];
  if (parts->total == rows) return 0;
  error_invalid(comm_state(self),
                "counts add up to %zd and the first dimension of x is %zd: they must be equal",
                parts->total, rows);
  return -1;
}

/* Sends this rank's number of rows to every rank, and receives theirs. */
static int parts_allgather(parts *parts, comm_object *self, const view *in) {
  if (parts_alloc(parts, ring_comm_size(self->comm)) < 0) return -1;
  int64_t mine = in->buffer.shape[0];
  comm_enter(self);
  ring_status status = ring_rows_allgather(self->comm, mine, (size_t)row_bytes(in), parts->rows);
  if (comm_leave(self, status) && parts_count(parts, self, in) == 0) return 0;
  parts_close(parts);
  return -1;
}

/* Sends every rank the number of rows that it will get, and receives this rank's numbers. */
static int parts_alltoall(parts *parts, comm_object *self, const int64_t *sent, const view *in) {
  if (parts_alloc(parts, ring_comm_size(self->comm)) < 0) return -1;
  comm_enter(self);
  ring_status status = ring_rows_alltoall(self->comm, sent, (size_t)row_bytes(in), parts->rows);
  if (comm_leave(self, status) && parts_count(parts, self, in) == 0) return 0;
  parts_close(parts);
  return -1;
}

/* The rows of each rank, as an array of int64. */
static PyObject *parts_array(const parts *parts, comm_object *self) {
  int size = ring_comm_size(self->comm);
  PyObject *list = PyList_New(size), *array = NULL;
  for (int rank = 0; list && rank < size; rank++) {
    PyObject *rows = PyLong_FromLongLong(parts->rows[rank]);
    if (rows == NULL || PyList_SetItem(list, rank, rows) < 0) Py_CLEAR(list);
  }
  if (list) array = PyObject_CallMethod(comm_state(self)->numpy, "array", "Os", list, "int64");
  Py_XDECREF(list);
  return array;
}

/* Views x, which must have rows. `on_host`: the name of a call that takes no arrays on GPUs, or NULL. */
static operands *open_rows(comm_object *self, PyObject *x, const char *dtype, bool read,
                           const char *on_host) {
  operands *opened = on_host ? operands_open_on_host(self, x, dtype, read, on_host)
                             : operands_open(self, x, -1, dtype, read, OPERANDS_GPU);
  if (opened != NULL) opened->rows = true;
  if (opened == NULL || view_check_rows(&opened->in, comm_state(self)) == 0) return opened;
  operands_finish(opened, false);
  return NULL;
}

/* ---- The methods -------------------------------------------------------------------------- */

static PyObject *allgatherv_call(comm_object *self, const arguments_given *given) {
  static const arguments_form form = {"allgatherv", 2, {ARGUMENTS_X, ARGUMENTS_DTYPE}};
  arguments a;
  PyObject *result = NULL;
  if (arguments_read(&a, comm_state(self), &form, given) < 0) return NULL;
  parts parts = {0};
  operands *o = open_rows(self, a.x, a.dtype, true, form.method);
  if (o == NULL) return NULL;
  if (parts_allgather(&parts, self, &o->in) < 0) return operands_finish(o, false);
  call call;
  if (operands_make_rows(o, self, parts.total) == 0 &&
      call_enter(&call, self, o, operands_finish, "allgatherv", given->request) == 0)
    result = call_leave(&call, CALL_CORE(&call, allgatherv, o->in.buffer.buf, o->out.buffer.buf,
                                         parts.elements, o->in.dtype));
  parts_close(&parts);
  return result;
}

/* As the core does, but before the counts are exchanged. */
static int check_root(comm_object *self, const char *call, int root) {
  int size = ring_comm_size(self->comm);
  if (root >= 0 && root < size) return 0;
  error_invalid(comm_state(self), "%s: root %d is no rank: ranks go from 0 to %d", call, root,
                size - 1);
  return -1;
}

static PyObject *gatherv_call(comm_object *self, const arguments_given *given) {
  static const arguments_form form = {"gatherv", 3, {ARGUMENTS_X, ARGUMENTS_ROOT, ARGUMENTS_DTYPE}};
  arguments a;
  PyObject *result = NULL;
  if (arguments_read(&a, comm_state(self), &form, given) < 0) return NULL;
  if (check_root(self, "gatherv", a.root) < 0) return NULL;
  parts parts = {0};
  operands *o = open_rows(self, a.x, a.dtype, true, form.method);
  if (o == NULL) return NULL;
  if (parts_allgather(&parts, self, &o->in) < 0) return operands_finish(o, false);
  call call;
  bool is_root = ring_comm_rank(self->comm) == a.root;
  if ((!is_root || operands_make_rows(o, self, parts.total) == 0) &&
      call_enter(&call, self, o, operands_finish, "gatherv", given->request) == 0)
    result = call_leave(&call, CALL_CORE(&call, gatherv, o->in.buffer.buf, o->out.buffer.buf,
                                         parts.elements, o->in.dtype, a.root));
  parts_close(&parts);
  return result;
}

static PyObject *scatterv_call(comm_object *self, const arguments_given *given) {
  static const arguments_form form = {
      "scatterv", 4, {ARGUMENTS_X, ARGUMENTS_COUNTS, ARGUMENTS_ROOT, ARGUMENTS_DTYPE}};
  arguments a;
  PyObject *result = NULL;
  int rank = ring_comm_rank(self->comm);
  if (arguments_read(&a, comm_state(self), &form, given) < 0) return NULL;
  parts parts = {0};
  operands *o = open_rows(self, a.x, a.dtype, rank == a.root, form.method);
  if (o == NULL) return NULL;
  if (parts_read(&parts, self, a.counts, &o->in) < 0) return operands_finish(o, false);
  call call;
  if (o->read && parts_check_total(&parts, self, &o->in) < 0)
    operands_finish(o, false);
  else if (operands_make_rows(o, self, (Py_ssize_t)parts.rows[rank]) == 0 &&
           call_enter(&call, self, o, operands_finish, "scatterv", given->request) == 0)
    result = call_leave(&call, CALL_CORE(&call, scatterv, o->read ? o->in.buffer.buf : NULL,
                                         o->out.buffer.buf, parts.elements, o->in.dtype, a.root));
  parts_close(&parts);
  return result;
}

/* Reads which rows each rank gets, and asks the others for those that this rank gets. */
static int alltoallv_parts(parts *sent, parts *received, comm_object *self, const arguments *a,
                           operands *o) {
  if (parts_read(sent, self, a->counts, &o->in) < 0) return -1;
  if (parts_check_total(sent, self, &o->in) < 0) return -1;
  if (parts_alltoall(received, self, sent->rows, &o->in) < 0) return -1;
  if (!a->return_counts) return 0;
  o->counts = parts_array(received, self);
  return o->counts == NULL ? -1 : 0;
}

static PyObject *alltoallv_call(comm_object *self, const arguments_given *given) {
  static const arguments_form form = {
      "alltoallv", 4, {ARGUMENTS_X, ARGUMENTS_COUNTS, ARGUMENTS_DTYPE, ARGUMENTS_RETURN_COUNTS}};
  arguments a;
  PyObject *result = NULL;
  if (arguments_read(&a, comm_state(self), &form, given) < 0) return NULL;
  parts sent = {0}, received = {0};
  operands *o = open_rows(self, a.x, a.dtype, true, NULL);
  if (o == NULL) return NULL;
  call call;
  if (alltoallv_parts(&sent, &received, self, &a, o) < 0)
    operands_finish(o, false);
  else if (operands_make_rows(o, self, received.total) == 0 &&
           call_enter(&call, self, o, operands_finish, "alltoallv", given->request) == 0)
    result = call_leave(&call, CALL_CORE(&call, alltoallv, o->in.buffer.buf, sent.elements,
                                         o->out.buffer.buf, received.elements, o->in.dtype));
  parts_close(&sent);
  parts_close(&received);
  return result;
}

static PyObject *reduce_scatterv_call(comm_object *self, const arguments_given *given) {
  static const arguments_form form = {"reduce_scatterv",
                                      6,
                                      {ARGUMENTS_X, ARGUMENTS_COUNTS, ARGUMENTS_OP, ARGUMENTS_DTYPE,
                                       ARGUMENTS_PRESCALE, ARGUMENTS_POSTSCALE}};
  arguments a;
  ring_op op;
  PyObject *result = NULL;
  if (arguments_read(&a, comm_state(self), &form, given) < 0) return NULL;
  if (collective_parse_op(comm_state(self), a.op, &op) < 0) return NULL;
  parts parts = {0};
  operands *o = open_rows(self, a.x, a.dtype, true, form.method);
  if (o == NULL) return NULL;
  o->rows = false; /* x has the same shape on every rank */
  o->prescale = a.prescale;
  o->postscale = a.postscale;
  call call;
  if (parts_read(&parts, self, a.counts, &o->in) < 0 || parts_check_total(&parts, self, &o->in) < 0)
    operands_finish(o, false);
  else if (operands_make_rows(o, self, (Py_ssize_t)parts.rows[ring_comm_rank(self->comm)]) == 0 &&
           call_enter(&call, self, o, operands_finish, "reduce_scatterv", given->request) == 0)
    result = call_leave(&call, CALL_CORE(&call, reduce_scatterv, o->in.buffer.buf,
                                         o->out.buffer.buf, parts.elements, o->in.dtype, op));
  parts_close(&parts);
  return result;
}

CALL_DEFINE(parts, allgatherv)
CALL_DEFINE(parts, gatherv)
CALL_DEFINE(parts, scatterv)
CALL_DEFINE(parts, alltoallv)
CALL_DEFINE(parts, reduce_scatterv)
