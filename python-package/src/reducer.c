/* SPDX-License-Identifier: Apache-2.0
 *
 * A reducer that is dropped in a hook of the core, or when the interpreter ends, is never freed: the core may use its
 * memory.
 */
#include "reducer.h"

#include "arguments.h"
#include "collective.h"
#include "device.h"
#include "error.h"
#include "gil.h"
#include "object.h"
#include "submission.h"

static module_state *reducer_state(const reducer_object *self) {
  return comm_state(self->comm);
}

PyObject *reducer_raise(const reducer_object *self, ring_status status) {
  return error_raise(reducer_state(self), status, ring_reducer_error(self->reducer));
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

/* Whether the core allocates the output. */
static bool submit_allocates(const submit_work *work) {
  ring_operation_kind kind = work->operation.kind;
  return kind == RING_OPERATION_REDUCE_SCATTER || kind == RING_OPERATION_ALLGATHER ||
         kind == RING_OPERATION_ALLTOALL;
}

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
  bool allocates = submit_allocates(work);
  operands **last = &work->operands;
  for (Py_ssize_t i = 0; i < count; i++) {
    PyObject *to = work->group && out != Py_None ? PyList_GetItem(out, i) : out;
    const char *name;
    if (to == NULL || submit_read_dtype(dtype, i, &name) < 0) return -1;
    operands *o = operands_open(comm, work->group ? PyList_GetItem(x, i) : x,
                                work->group ? (int)i : -1, name, true, OPERANDS_APART_GPU);
    if (o == NULL) return -1;
    if (work->operands && operands_join(work->operands, o, comm) < 0) {
      operands_finish(o, false);
      return -1;
    }
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
  if (o && o->in.gpu) {
    operation->memory = RING_MEMORY_GPU;
    operation->stream = o->in.stream;
  }
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

static PyObject *submit_make(reducer_object *self, PyTypeObject *type, submit_work *work) {
  submission_object *made = submission_make(type, self);
  if (made == NULL) return NULL;
  ring_status status = ring_reducer_submit(self->reducer, &work->operation, &made->submission);
  if (status != RING_OK) {
    Py_DECREF((PyObject *)made);
    return reducer_raise(self, status);
  }
  made->operands = work->operands;
  made->group = work->group;
  made->allocates = submit_allocates(work);
  made->settled = false;
  return (PyObject *)made;
}

static int submit_read_numbers(submit_work *work, module_state *state, PyObject *root,
                               PyObject *prescale, PyObject *postscale) {
  ring_operation *operation = &work->operation;
  if (arguments_read_int(state, root, "root", &operation->root) < 0) return -1;
  if (arguments_read_real(prescale, "prescale", &operation->prescale) < 0) return -1;
  return arguments_read_real(postscale, "postscale", &operation->postscale);
}

static int submit_read_kind(submit_work *work, module_state *state, const char *name) {
  ring_operation_kind *kind = &work->operation.kind;
  if (ring_operation_parse(name, kind) != RING_OK) {
    error_invalid(state, "\"%s\" is not an operation of a reducer", name);
    return -1;
  }
  work->group = *kind == RING_OPERATION_ALLREDUCE_GROUP;
  return 0;
}

/* submit(type, kind, name, x, out, op, root, dtype, prescale, postscale, splits, note): `type` is the class of the
 * submission, kind the name of an operation; x and out are lists for a group, and dtype may be one. A barrier has no
 * x. */
static PyObject *reducer_submit(PyObject *object, PyObject *args) {
  reducer_object *self = (reducer_object *)object;
  module_state *state = reducer_state(self);
  submit_work work = {.operation = RING_OPERATION_INIT};
  PyObject *type, *x, *out, *op, *root, *splits, *dtype, *prescale, *postscale;
  const char *kind, *op_name;
  if (!PyArg_ParseTuple(args, "O!ssOOOOOOOOz:submit", &PyType_Type, &type, &kind,
                        &work.operation.name, &x, &out, &op, &root, &dtype, &prescale, &postscale,
                        &splits, &work.operation.note) ||
      submit_read_kind(&work, state, kind) < 0 || arguments_read_text(op, "op", &op_name) < 0 ||
      collective_parse_op(state, op_name, &work.operation.op) < 0 ||
      submit_read_numbers(&work, state, root, prescale, postscale) < 0)
    return NULL;
  bool has_arrays = work.operation.kind != RING_OPERATION_BARRIER;
  PyObject *made = NULL;
  if ((!has_arrays || submit_open(&work, self->comm, x, out, dtype) == 0) &&
      submit_fill(&work, self->comm) == 0 && submit_read_splits(&work, self->comm, splits) == 0)
    made = submit_make(self, (PyTypeObject *)type, &work);
  submit_end(&work, made != NULL);
  return made;
}

/* ---- The reducer -------------------------------------------------------------------------- */

PyObject *reducer_open(PyObject *module, PyObject *args) {
  module_state *state = PyModule_GetState(module);
  ring_reducer_options options = RING_REDUCER_OPTIONS_INIT;
  ring_device_options device = RING_DEVICE_OPTIONS_INIT;
  comm_object *comm;
  Py_ssize_t threshold, capacity;
  const char *path;
  int autotune;
  if (!PyArg_ParseTuple(args, "O!ndndpzszz:reducer_open", state->comm_type, &comm, &threshold,
                        &options.cycle_time, &capacity, &options.stall_timeout, &autotune,
                        &options.autotune_log, &path, &device.nccl, &device.nvrtc) ||
      device_read_path(state, path, &device.path) < 0)
    return NULL;
  options.device = &device;
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
  return Py_BuildValue("{s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:d}", "cycles", (unsigned long long)c.cycles,
                       "negotiations", (unsigned long long)c.negotiations, "operations",
                       (unsigned long long)c.operations, "runs", (unsigned long long)c.runs,
                       "gpu_runs", (unsigned long long)c.gpu_runs, "cached",
                       (unsigned long long)c.cached, "threshold", (unsigned long long)c.threshold,
                       "cycle_time", c.cycle_time);
}

/* explain_device(): None before the first operation on arrays on GPUs. */
static PyObject *reducer_explain_device(PyObject *object, PyObject *unused) {
  (void)unused;
  reducer_object *self = (reducer_object *)object;
  ring_reducer_counters counters;
  ring_device_explanation explanation;
  ring_reducer_counters_read(self->reducer, &counters);
  if (counters.gpu_runs == 0) Py_RETURN_NONE;
  ring_status status = ring_reducer_explain_device(self->reducer, &explanation);
  return status == RING_OK ? device_tell(&explanation) : reducer_raise(self, status);
}

static void reducer_dealloc(PyObject *object) {
  reducer_object *self = (reducer_object *)object;
  if (self->reducer && !gil_in_hook() && !gil_is_ending()) {
    gil_release();
    ring_reducer_free(self->reducer);
    gil_take();
  }
  Py_CLEAR(self->comm);
  object_free(object);
}

OBJECT_REFUSES(reducer_new, "Communicator.reducer() makes a reducer")

static PyMethodDef reducer_methods[] = {
    {"submit", reducer_submit, METH_VARARGS, NULL},
    {"join", reducer_join, METH_NOARGS, NULL},
    {"close", reducer_close, METH_NOARGS, NULL},
    {"abort", reducer_abort, METH_VARARGS, NULL},
    {"counters", reducer_counters, METH_NOARGS, NULL},
    {"explain_device", reducer_explain_device, METH_NOARGS, NULL},
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
