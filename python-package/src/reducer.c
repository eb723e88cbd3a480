/* SPDX-License-Identifier: Apache-2.0
 *
 * A submission keeps the views of its arrays open until it is done. Its result is made by the first wait
 * or test after the end. A submission or a reducer that is dropped in a hook of the core, or when the
 * interpreter ends, is never freed: the core may use its memory.
 */
#include "reducer.h"

#include <stddef.h>
#include <string.h>

#include "arguments.h"
#include "collective.h"
#include "error.h"
#include "gil.h"
#include "operands.h"

typedef struct reducer_object {
  PyObject_HEAD comm_object *comm;
  ring_reducer *reducer;
} reducer_object;

typedef struct submission_object {
  PyObject_HEAD reducer_object *reducer;
  ring_submission *submission;
  operands *operands; /* NULL: of a barrier, and when they are closed */
  PyObject *result, *rows;
  bool allocates; /* the core allocates the output */
  bool group;
  bool settled;
  bool waiting;
} submission_object;

static module_state *reducer_state(const reducer_object *self) {
  return comm_state(self->comm);
}

static PyObject *reducer_raise(const reducer_object *self, ring_status status) {
  return error_raise(reducer_state(self), status, ring_reducer_error(self->reducer));
}

/* ---- Results ------------------------------------------------------------------------------ */

/* Copies the output of the core into an array of its rows. */
static PyObject *settle_rows(submission_object *self) {
  int64_t rows;
  void *output = ring_submission_take_output(self->submission, &rows);
  operands *o = self->operands;
  self->operands = NULL;
  if (operands_make_rows(o, self->reducer->comm, (Py_ssize_t)rows) < 0) {
    ring_free(output);
    return NULL;
  }
  if (output) memcpy(o->out.buffer.buf, output, (size_t)o->out.buffer.len);
  ring_free(output);
  return operands_finish(o, true);
}

static PyObject *settle_row_counts(const submission_object *self) {
  const int64_t *rows = ring_submission_rows(self->submission);
  int size = rows ? ring_comm_size(self->reducer->comm->comm) : 0;
  PyObject *list = PyList_New(size);
  for (int r = 0; list && r < size; r++) {
    PyObject *number = PyLong_FromLongLong(rows[r]);
    if (number == NULL || PyList_SetItem(list, r, number) < 0) Py_CLEAR(list);
  }
  return list;
}

static PyObject *settle_result(submission_object *self, bool succeeded) {
  operands *o = self->operands;
  if (succeeded && self->allocates) return settle_rows(self);
  self->operands = NULL;
  if (self->group) return operands_finish_list(o, succeeded);
  if (o) return operands_finish(o, succeeded);
  if (!succeeded) return NULL;
  Py_RETURN_NONE;
}

/* The result of a submission that is done, or NULL with an exception. */
static PyObject *submission_answer(submission_object *self, ring_status status) {
  module_state *state = reducer_state(self->reducer);
  if (PyErr_Occurred()) return NULL; /* from a signal handler */
  if (status == RING_INVALID) return reducer_raise(self->reducer, status);
  if (!self->settled) {
    self->settled = true;
    self->result = settle_result(self, status == RING_OK);
    if (status == RING_OK && self->result) self->rows = settle_row_counts(self);
    if (status == RING_OK && PyErr_Occurred()) return NULL;
  }
  if (status != RING_OK) return error_raise(state, status, ring_submission_error(self->submission));
  if (self->result == NULL) return error_raise(state, RING_NO_MEMORY, NULL);
  Py_INCREF(self->result);
  return self->result;
}

static PyObject *submission_wait(PyObject *object, PyObject *unused) {
  (void)unused;
  submission_object *self = (submission_object *)object;
  static const ring_error busy = {
      .status = RING_BUSY, .rank = -1, .message = "another thread is waiting for this submission"};
  if (self->waiting) return error_raise(reducer_state(self->reducer), RING_BUSY, &busy);
  self->waiting = true;
  gil_release();
  ring_status status = ring_submission_wait(self->submission);
  gil_take();
  self->waiting = false;
  return submission_answer(self, status);
}

static PyObject *submission_test(PyObject *object, PyObject *unused) {
  (void)unused;
  submission_object *self = (submission_object *)object;
  int done = 0;
  ring_status status = self->waiting ? RING_OK : ring_submission_test(self->submission, &done);
  if (!done) Py_RETURN_FALSE;
  PyObject *result = submission_answer(self, status);
  if (result == NULL) return NULL;
  Py_DECREF(result);
  Py_RETURN_TRUE;
}

static PyObject *submission_rows(PyObject *object, void *unused) {
  (void)unused;
  submission_object *self = (submission_object *)object;
  PyObject *rows = self->rows ? self->rows : Py_None;
  Py_INCREF(rows);
  return rows;
}

static void submission_dealloc(PyObject *object) {
  submission_object *self = (submission_object *)object;
  PyTypeObject *type = Py_TYPE(object);
  int done = 1;
  if (self->submission) ring_submission_test(self->submission, &done);
  bool leaves = !done && (gil_in_hook() || gil_is_ending());
  if (self->submission && !leaves) {
    PyObject *kind, *value, *traceback;
    PyErr_Fetch(&kind, &value, &traceback);
    gil_release();
    ring_submission_free(self->submission);
    gil_take();
    PyErr_Restore(kind, value, traceback);
  }
  if (!leaves) {
    if (!self->settled) Py_XDECREF(settle_result(self, false));
    Py_CLEAR(self->result);
    Py_CLEAR(self->rows);
    Py_CLEAR(self->reducer);
  }
  freefunc free_object = (freefunc)PyType_GetSlot(type, Py_tp_free);
  free_object(object);
  Py_DECREF(type);
}

/* ---- Submitting --------------------------------------------------------------------------- */

/* The arguments of one call of submit() for the core. */
typedef struct submit_work {
  ring_operation operation;
  int64_t shape[64], *splits;
  ring_buffer *buffers;
  ring_dtype *dtypes;
  operands *operands;
  bool group;
} submit_work;

/* The name of the dtype of array `i`: of a group, an item of a list. */
static int submit_read_dtype(PyObject *dtype, Py_ssize_t i, const char **name) {
  PyObject *item = PyList_Check(dtype) ? PyList_GetItem(dtype, i) : dtype;
  *name = NULL;
  if (item == NULL) return -1;
  if (item == Py_None) return 0;
  *name = PyUnicode_AsUTF8AndSize(item, NULL);
  return *name == NULL ? -1 : 0;
}

/* Opens x, or the arrays of a group, and their outputs. 0, or -1 with an exception. */
static int submit_open(submit_work *work, comm_object *comm, PyObject *x, PyObject *out,
                       PyObject *dtype) {
  Py_ssize_t count = work->group ? PyList_Size(x) : 1;
  bool allocates = work->operation.kind == RING_OPERATION_REDUCE_SCATTER ||
                   work->operation.kind == RING_OPERATION_ALLGATHER ||
                   work->operation.kind == RING_OPERATION_ALLTOALL;
  operands **last = &work->operands;
  for (Py_ssize_t i = 0; i < count; i++) {
    PyObject *to = work->group && out != Py_None ? PyList_GetItem(out, i) : out;
    const char *name;
    if (to == NULL || submit_read_dtype(dtype, i, &name) < 0) return -1;
    operands *o = operands_open(comm, work->group ? PyList_GetItem(x, i) : x,
                                work->group ? (int)i : -1, name, true);
    if (o == NULL) return -1;
    if (!allocates && operands_result(o, comm, to, OPERANDS_SAME) < 0) return -1;
    *last = o;
    last = &o->next;
  }
  return 0;
}

static int submit_fill(submit_work *work, comm_object *comm) {
  const operands *o = work->operands;
  ring_operation *operation = &work->operation;
  if (o) operation->dtype = o->in.dtype;
  if (work->group) {
    for (; o; o = o->next) operation->buffer_count++;
    work->buffers = PyMem_Calloc(operation->buffer_count + 1, sizeof(*work->buffers));
    work->dtypes = PyMem_Calloc(operation->buffer_count + 1, sizeof(*work->dtypes));
    if (work->buffers == NULL || work->dtypes == NULL) return PyErr_NoMemory(), -1;
    size_t i = 0;
    for (o = work->operands; o; o = o->next) {
      work->buffers[i] = (ring_buffer){o->in.buffer.buf, o->out.buffer.buf, o->in.count};
      work->dtypes[i++] = o->in.dtype;
    }
    operation->buffers = work->buffers;
    operation->dtypes = work->dtypes;
    return 0;
  }
  if (o == NULL) return 0;
  if (o->in.buffer.ndim > 32) {
    error_invalid(comm_state(comm), "x has %d dimensions: pass up to 32", o->in.buffer.ndim);
    return -1;
  }
  for (int i = 0; i < o->in.buffer.ndim; i++) work->shape[i] = o->in.buffer.shape[i];
  operation->input = o->in.buffer.buf;
  operation->output = o->out.buffer.buf;
  operation->shape = work->shape;
  operation->dimensions = o->in.buffer.ndim;
  return 0;
}

static int submit_read_splits(submit_work *work, comm_object *comm, PyObject *splits) {
  int size = ring_comm_size(comm->comm);
  if (splits == Py_None) return 0;
  if (PyList_Size(splits) != size) {
    error_invalid(comm_state(comm), "splits has %zd numbers: pass one for each of %d ranks",
                  PyList_Size(splits), size);
    return -1;
  }
  work->splits = PyMem_Calloc((size_t)size, sizeof(*work->splits));
  if (work->splits == NULL) return PyErr_NoMemory(), -1;
  for (int r = 0; r < size; r++) {
    char name[24];
    Py_ssize_t rows;
    PyOS_snprintf(name, sizeof name, "splits[%d]", r);
    if (arguments_read_size(PyList_GetItem(splits, r), name, &rows) < 0) return -1;
    work->splits[r] = rows;
  }
  work->operation.splits = work->splits;
  return 0;
}

static void submit_end(submit_work *work, bool submitted) {
  PyMem_Free(work->splits);
  PyMem_Free(work->buffers);
  PyMem_Free(work->dtypes);
  if (submitted || work->operands == NULL) return;
  Py_XDECREF(work->group ? operands_finish_list(work->operands, false)
                         : operands_finish(work->operands, false));
}

static PyObject *submit_make(reducer_object *self, submit_work *work) {
  module_state *state = reducer_state(self);
  submission_object *made = (submission_object *)PyType_GenericAlloc(state->submission_type, 0);
  if (made == NULL) return NULL;
  ring_operation_kind kind = work->operation.kind;
  ring_status status = ring_reducer_submit(self->reducer, &work->operation, &made->submission);
  if (status != RING_OK) {
    made->settled = true;
    Py_DECREF((PyObject *)made);
    return reducer_raise(self, status);
  }
  Py_INCREF((PyObject *)self);
  made->reducer = self;
  made->operands = work->operands;
  made->group = work->group;
  made->allocates = kind == RING_OPERATION_REDUCE_SCATTER || kind == RING_OPERATION_ALLGATHER ||
                    kind == RING_OPERATION_ALLTOALL;
  return (PyObject *)made;
}

static int submit_read_numbers(submit_work *work, module_state *state, PyObject *root,
                               PyObject *prescale, PyObject *postscale) {
  ring_operation *operation = &work->operation;
  if (arguments_read_int(state, root, "root", &operation->root) < 0) return -1;
  if (arguments_read_real(prescale, "prescale", &operation->prescale) < 0) return -1;
  return arguments_read_real(postscale, "postscale", &operation->postscale);
}

/* submit(kind, name, x, out, op, root, dtype, prescale, postscale, splits, note): x and out are lists for a
 * group, and dtype may be one. A barrier has no x. */
static PyObject *reducer_submit(PyObject *object, PyObject *args) {
  reducer_object *self = (reducer_object *)object;
  module_state *state = reducer_state(self);
  submit_work work = {.operation = RING_OPERATION_INIT};
  PyObject *x, *out, *op, *root, *splits, *dtype, *prescale, *postscale;
  const char *op_name;
  int kind;
  if (!PyArg_ParseTuple(args, "isOOOOOOOOz:submit", &kind, &work.operation.name, &x, &out, &op,
                        &root, &dtype, &prescale, &postscale, &splits, &work.operation.note) ||
      arguments_read_text(op, "op", &op_name) < 0 ||
      collective_parse_op(state, op_name, &work.operation.op) < 0 ||
      submit_read_numbers(&work, state, root, prescale, postscale) < 0)
    return NULL;
  work.operation.kind = (ring_operation_kind)kind;
  work.group = kind == RING_OPERATION_ALLREDUCE_GROUP;
  PyObject *made = NULL;
  if ((kind == RING_OPERATION_BARRIER || submit_open(&work, self->comm, x, out, dtype) == 0) &&
      submit_fill(&work, self->comm) == 0 && submit_read_splits(&work, self->comm, splits) == 0)
    made = submit_make(self, &work);
  submit_end(&work, made != NULL);
  return made;
}

/* ---- The reducer -------------------------------------------------------------------------- */

PyObject *reducer_open(PyObject *module, PyObject *args) {
  module_state *state = PyModule_GetState(module);
  ring_reducer_options options = RING_REDUCER_OPTIONS_INIT;
  comm_object *comm;
  Py_ssize_t threshold, capacity;
  int autotune;
  if (!PyArg_ParseTuple(args, "O!ndndpz:reducer_open", state->comm_type, &comm, &threshold,
                        &options.cycle_time, &capacity, &options.stall_timeout, &autotune,
                        &options.autotune_log))
    return NULL;
  options.autotune = autotune ? RING_ON : RING_OFF;
  options.threshold = (size_t)threshold;
  options.cache_capacity = (size_t)capacity;
  reducer_object *self = (reducer_object *)PyType_GenericAlloc(state->reducer_type, 0);
  if (self == NULL) return NULL;
  Py_INCREF((PyObject *)comm);
  self->comm = comm;
  comm_enter(comm);
  ring_status status = ring_reducer_open(comm->comm, &options, &self->reducer);
  if (comm_leave(comm, status)) return (PyObject *)self;
  Py_DECREF((PyObject *)self);
  return NULL;
}

static PyObject *reducer_join(PyObject *object, PyObject *unused) {
  (void)unused;
  reducer_object *self = (reducer_object *)object;
  int last = -1;
  gil_release();
  ring_status status = ring_reducer_join(self->reducer, &last);
  gil_take();
  if (PyErr_Occurred()) return NULL;
  return status == RING_OK ? PyLong_FromLong(last) : reducer_raise(self, status);
}

static PyObject *reducer_leave(PyObject *object, PyObject *unused) {
  (void)unused;
  reducer_object *self = (reducer_object *)object;
  ring_status status = ring_reducer_leave(self->reducer);
  if (status != RING_OK) return reducer_raise(self, status);
  Py_RETURN_NONE;
}

static PyObject *reducer_close(PyObject *object, PyObject *unused) {
  (void)unused;
  reducer_object *self = (reducer_object *)object;
  gil_release();
  ring_status status = ring_reducer_close(self->reducer);
  gil_take();
  if (PyErr_Occurred()) return NULL;
  if (status != RING_OK) return reducer_raise(self, status);
  Py_RETURN_NONE;
}

static PyObject *reducer_abort(PyObject *object, PyObject *args) {
  const char *reason;
  if (!PyArg_ParseTuple(args, "z:abort", &reason)) return NULL;
  ring_reducer_abort(((reducer_object *)object)->reducer, reason);
  Py_RETURN_NONE;
}

static PyObject *reducer_counters(PyObject *object, PyObject *unused) {
  (void)unused;
  ring_reducer_counters c;
  ring_reducer_counters_read(((reducer_object *)object)->reducer, &c);
  return Py_BuildValue("{s:K,s:K,s:K,s:K,s:K,s:K,s:d}", "cycles", (unsigned long long)c.cycles,
                       "negotiations", (unsigned long long)c.negotiations, "operations",
                       (unsigned long long)c.operations, "runs", (unsigned long long)c.runs,
                       "cached", (unsigned long long)c.cached, "threshold",
                       (unsigned long long)c.threshold, "cycle_time", c.cycle_time);
}

static void reducer_dealloc(PyObject *object) {
  reducer_object *self = (reducer_object *)object;
  PyTypeObject *type = Py_TYPE(object);
  if (self->reducer && !gil_in_hook() && !gil_is_ending()) {
    gil_release();
    ring_reducer_free(self->reducer);
    gil_take();
  }
  Py_CLEAR(self->comm);
  freefunc free_object = (freefunc)PyType_GetSlot(type, Py_tp_free);
  free_object(object);
  Py_DECREF(type);
}

static PyObject *reducer_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  (void)type, (void)args, (void)kwargs;
  PyErr_SetString(PyExc_TypeError, "Communicator.reducer() makes a reducer, and the methods of a"
                                   " reducer make submissions");
  return NULL;
}

static PyMethodDef reducer_methods[] = {
    {"submit", reducer_submit, METH_VARARGS, NULL},
    {"join", reducer_join, METH_NOARGS, NULL},
    {"close", reducer_close, METH_NOARGS, NULL},
    {"abort", reducer_abort, METH_VARARGS, NULL},
    {"counters", reducer_counters, METH_NOARGS, NULL},
    {"leave", reducer_leave, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot reducer_slots[] = {
    {Py_tp_new, reducer_new},
    {Py_tp_dealloc, reducer_dealloc},
    {Py_tp_methods, reducer_methods},
    {0, NULL},
};

PyType_Spec reducer_type_spec = {
    .name = "sparkring._core.ReducerHandle",
    .basicsize = sizeof(reducer_object),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = reducer_slots,
};

static PyMethodDef submission_methods[] = {
    {"wait", submission_wait, METH_NOARGS,
     "wait($self, /)\n--\n\n"
     "Wait until the operation is done, and return its result.\n\n"
     "Returns\n-------\n"
     "array, list of array or None\n"
     "    As the method of `Reducer` says.\n\n"
     "Raises\n------\n"
     "MismatchError\n"
     "    When ranks pass different arrays or arguments under the name; later submissions work.\n"
     "PeerLostError, TimeoutError, AbortedError\n"
     "    When a rank dies, hangs, misses the name or aborts."},
    {"test", submission_test, METH_NOARGS,
     "test($self, /)\n--\n\n"
     "Return whether the operation is done, without waiting.\n\n"
     "Returns\n-------\nbool\n\n"
     "Raises\n------\n"
     "MismatchError, PeerLostError, TimeoutError, AbortedError\n"
     "    The error of `wait`, when the operation has failed."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef submission_attributes[] = {
    {"rows", submission_rows, NULL,
     "Rows from each rank, of a complete allgather or alltoall; else an empty list or None.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot submission_slots[] = {
    {Py_tp_new, reducer_new},
    {Py_tp_dealloc, submission_dealloc},
    {Py_tp_doc, "An operation that was submitted to a `Reducer`.\n\n`wait` returns the result."},
    {Py_tp_methods, submission_methods},
    {Py_tp_getset, submission_attributes},
    {0, NULL},
};

PyType_Spec submission_type_spec = {
    .name = "sparkring.Submission",
    .basicsize = sizeof(submission_object),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = submission_slots,
};
