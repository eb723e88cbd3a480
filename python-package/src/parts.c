/* SPDX-License-Identifier: Apache-2.0
 *
 * A part is a number of rows: what lies below the first dimension. Users count rows, and so do the
 * messages in which the ranks tell each other their counts (int64, as R does), so that ranks whose
 * rows differ in length call different things; the core counts elements.
 */
#include "parts.h"

#include "error.h"
#include "operands.h"

/* The parts of all ranks, behind each other. */
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

/* Adds up the rows and counts their elements, which must fit into memory. */
static int parts_count(parts *parts, comm_object *self, const view *in) {
  Py_ssize_t length = row_length(in), row_bytes = length * in->buffer.itemsize;
  int64_t most = PY_SSIZE_T_MAX / (row_bytes ? row_bytes : 1);
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

/* Takes the counts of the caller: one a rank. */
static int parts_read(parts *parts, comm_object *self, PyObject *counts, const view *in) {
  int size = ring_comm_size(self->comm);
  PyObject *numbers = PySequence_Tuple(counts);
  if (numbers == NULL) return -1;
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
    parts->rows[rank] = PyNumber_AsSsize_t(PyTuple_GetItem(numbers, rank), NULL);
    if (PyErr_Occurred()) goto out;
  }
  failed = parts_count(parts, self, in);
out:
  if (failed) parts_close(parts);
  Py_DECREF(numbers);
  return failed;
}

/* The counts of the caller must be those of all rows of x. */
static int parts_check_total(const parts *parts, comm_object *self, const view *in) {
  Py_ssize_t rows = in->buffer.shape[0];
  if (parts->total == rows) return 0;
  error_invalid(comm_state(self),
                "counts add up to %zd and the first dimension of x is %zd: they must be equal",
                parts->total, rows);
  return -1;
}

/* Tells every rank how many rows this one has, and learns how many they have. */
static int parts_allgather(parts *parts, comm_object *self, const view *in) {
  if (parts_alloc(parts, ring_comm_size(self->comm)) < 0) return -1;
  int64_t mine = in->buffer.shape[0];
  comm_enter(self);
  ring_status status = ring_allgather(self->comm, &mine, parts->rows, 1, RING_INT64);
  if (comm_leave(self, status) && parts_count(parts, self, in) == 0) return 0;
  parts_close(parts);
  return -1;
}

/* Tells every rank how many rows it will get, and learns how many this one will get. */
static int parts_alltoall(parts *parts, comm_object *self, const int64_t *sent, const view *in) {
  if (parts_alloc(parts, ring_comm_size(self->comm)) < 0) return -1;
  comm_enter(self);
  ring_status status = ring_alltoall(self->comm, sent, parts->rows, 1, RING_INT64);
  if (comm_leave(self, status) && parts_count(parts, self, in) == 0) return 0;
  parts_close(parts);
  return -1;
}

/* Views x, which must have rows. */
static int open_rows(operands *operands, comm_object *self, PyObject *x, const char *dtype,
                     bool read) {
  if (operands_open(operands, self, x, dtype, read) < 0) return -1;
  if (view_check_rows(&operands->in, comm_state(self)) == 0) return 0;
  operands_finish(operands, false);
  return -1;
}

/* ---- The methods -------------------------------------------------------------------------- */

PyObject *parts_allgatherv(PyObject *object, PyObject *args, PyObject *kwargs) {
  static char *names[] = {"x", "dtype", NULL};
  comm_object *self = (comm_object *)object;
  PyObject *x;
  const char *dtype = NULL;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|$z:allgatherv", names, &x, &dtype)) return NULL;
  operands o;
  parts parts = {0};
  if (open_rows(&o, self, x, dtype, true) < 0) return NULL;
  if (parts_allgather(&parts, self, &o.in) < 0) return operands_finish(&o, false);
  PyObject *result = NULL;
  if (operands_make_rows(&o, self, parts.total) == 0) {
    comm_enter(self);
    ring_status status =
        ring_allgatherv(self->comm, o.in.buffer.buf, o.out.buffer.buf, parts.elements, o.in.dtype);
    result = operands_finish(&o, comm_leave(self, status));
  }
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

PyObject *parts_gatherv(PyObject *object, PyObject *args, PyObject *kwargs) {
  static char *names[] = {"x", "root", "dtype", NULL};
  comm_object *self = (comm_object *)object;
  PyObject *x;
  const char *dtype = NULL;
  int root = 0;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|i$z:gatherv", names, &x, &root, &dtype))
    return NULL;
  operands o;
  parts parts = {0};
  if (check_root(self, "gatherv", root) < 0) return NULL;
  if (open_rows(&o, self, x, dtype, true) < 0) return NULL;
  if (parts_allgather(&parts, self, &o.in) < 0) return operands_finish(&o, false);
  PyObject *result = NULL;
  bool is_root = ring_comm_rank(self->comm) == root;
  if (!is_root || operands_make_rows(&o, self, parts.total) == 0) {
    comm_enter(self);
    ring_status status = ring_gatherv(self->comm, o.in.buffer.buf, o.out.buffer.buf, parts.elements,
                                      o.in.dtype, root);
    result = operands_finish(&o, comm_leave(self, status));
  }
  parts_close(&parts);
  return result;
}

PyObject *parts_scatterv(PyObject *object, PyObject *args, PyObject *kwargs) {
  static char *names[] = {"x", "counts", "root", "dtype", NULL};
  comm_object *self = (comm_object *)object;
  PyObject *x, *counts;
  const char *dtype = NULL;
  int root = 0, rank = ring_comm_rank(self->comm);
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO|i$z:scatterv", names, &x, &counts, &root,
                                   &dtype))
    return NULL;
  operands o;
  parts parts = {0};
  if (open_rows(&o, self, x, dtype, rank == root) < 0) return NULL;
  if (parts_read(&parts, self, counts, &o.in) < 0) return operands_finish(&o, false);
  PyObject *result = NULL;
  if (o.read && parts_check_total(&parts, self, &o.in) < 0)
    operands_finish(&o, false);
  else if (operands_make_rows(&o, self, (Py_ssize_t)parts.rows[rank]) == 0) {
    comm_enter(self);
    ring_status status = ring_scatterv(self->comm, o.read ? o.in.buffer.buf : NULL,
                                       o.out.buffer.buf, parts.elements, o.in.dtype, root);
    result = operands_finish(&o, comm_leave(self, status));
  }
  parts_close(&parts);
  return result;
}

PyObject *parts_alltoallv(PyObject *object, PyObject *args, PyObject *kwargs) {
  static char *names[] = {"x", "counts", "dtype", NULL};
  comm_object *self = (comm_object *)object;
  PyObject *x, *counts;
  const char *dtype = NULL;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO|$z:alltoallv", names, &x, &counts, &dtype))
    return NULL;
  operands o;
  parts sent = {0}, received = {0};
  PyObject *result = NULL;
  if (open_rows(&o, self, x, dtype, true) < 0) return NULL;
  if (parts_read(&sent, self, counts, &o.in) < 0 || parts_check_total(&sent, self, &o.in) < 0 ||
      parts_alltoall(&received, self, sent.rows, &o.in) < 0)
    operands_finish(&o, false);
  else if (operands_make_rows(&o, self, received.total) == 0) {
    comm_enter(self);
    ring_status status = ring_alltoallv(self->comm, o.in.buffer.buf, sent.elements,
                                        o.out.buffer.buf, received.elements, o.in.dtype);
    result = operands_finish(&o, comm_leave(self, status));
  }
  parts_close(&sent);
  parts_close(&received);
  return result;
}
