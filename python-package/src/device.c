/* SPDX-License-Identifier: Apache-2.0
 *
 * Each method has the same three steps: read numbers; call the core without the interpreter lock; convert a status to
 * an exception.
 */
#include "device.h"

#include <string.h>

#include "collective.h"
#include "device_memory.h"
#include "error.h"
#include "gil.h"

static module_state *device_state(device_object *self) {
  return PyType_GetModuleState(Py_TYPE((PyObject *)self));
}

/* ---- Numbers ------------------------------------------------------------------------------ */

/* Memory of the GPU, or a stream. */
static void *address(unsigned long long number) {
  return (void *)(uintptr_t)number; /* NOLINT(performance-no-int-to-ptr): Python has no pointers */
}

static int read_dtype(module_state *state, const char *name, ring_dtype *dtype) {
  if (ring_dtype_parse(name, dtype) == RING_OK) return 0;
  error_invalid(state, "arrays on GPUs of the dtype %s are not supported: convert x, as to float32",
                name);
  return -1;
}

/* None on success, or NULL with an exception. */
static PyObject *answer(device_object *self, ring_status status) {
  gil_take();
  if (status == RING_OK && !PyErr_Occurred()) Py_RETURN_NONE;
  self->reported = self->reported || (status != RING_INVALID && status != RING_BUSY);
  return error_raise(device_state(self), status, ring_device_error(self->device));
}

/* ---- Collectives -------------------------------------------------------------------------- */

/* What most calls take. */
typedef struct device_args {
  unsigned long long input, output, stream;
  Py_ssize_t count;
  const char *dtype_name, *op_name;
  ring_dtype dtype;
  ring_op op;
  int root;
} device_args;

static int check_args(device_object *self, device_args *a) {
  if (a->op_name && collective_parse_op(device_state(self), a->op_name, &a->op) < 0) return -1;
  return read_dtype(device_state(self), a->dtype_name, &a->dtype);
}

#define DEVICE_CALL(name, ...)                                                                     \
  do {                                                                                             \
    if (check_args(self, &a) < 0) return NULL;                                                     \
    gil_release();                                                                                 \
    return answer(self, ring_device_##name(self->device, __VA_ARGS__));                            \
  } while (0)

/* allreduce(input, output, count, dtype, op, stream) */
static PyObject *device_allreduce(PyObject *object, PyObject *args) {
  device_object *self = (device_object *)object;
  device_args a = {0};
  if (!PyArg_ParseTuple(args, "KKnssK", &a.input, &a.output, &a.count, &a.dtype_name, &a.op_name,
                        &a.stream))
    return NULL;
  DEVICE_CALL(allreduce, address(a.input), address(a.output), (size_t)a.count, a.dtype, a.op,
              address(a.stream));
}

/* reduce(input, output, count, dtype, op, root, stream) */
static PyObject *device_reduce(PyObject *object, PyObject *args) {
  device_object *self = (device_object *)object;
  device_args a = {0};
  if (!PyArg_ParseTuple(args, "KKnssiK", &a.input, &a.output, &a.count, &a.dtype_name, &a.op_name,
                        &a.root, &a.stream))
    return NULL;
  DEVICE_CALL(reduce, address(a.input), address(a.output), (size_t)a.count, a.dtype, a.op, a.root,
              address(a.stream));
}

/* reduce_scatter(input, output, count, dtype, op, stream): `count` elements for each rank */
static PyObject *device_reduce_scatter(PyObject *object, PyObject *args) {
  device_object *self = (device_object *)object;
  device_args a = {0};
  if (!PyArg_ParseTuple(args, "KKnssK", &a.input, &a.output, &a.count, &a.dtype_name, &a.op_name,
                        &a.stream))
    return NULL;
  DEVICE_CALL(reduce_scatter, address(a.input), address(a.output), (size_t)a.count, a.dtype, a.op,
              address(a.stream));
}

/* broadcast(input, output, count, dtype, root, stream) */
static PyObject *device_broadcast(PyObject *object, PyObject *args) {
  device_object *self = (device_object *)object;
  device_args a = {0};
  if (!PyArg_ParseTuple(args, "KKnsiK", &a.input, &a.output, &a.count, &a.dtype_name, &a.root,
                        &a.stream))
    return NULL;
  DEVICE_CALL(broadcast, address(a.input), address(a.output), (size_t)a.count, a.dtype, a.root,
              address(a.stream));
}

/* allgather(input, output, count, dtype, stream) */
static PyObject *device_allgather(PyObject *object, PyObject *args) {
  device_object *self = (device_object *)object;
  device_args a = {0};
  if (!PyArg_ParseTuple(args, "KKnsK", &a.input, &a.output, &a.count, &a.dtype_name, &a.stream))
    return NULL;
  DEVICE_CALL(allgather, address(a.input), address(a.output), (size_t)a.count, a.dtype,
              address(a.stream));
}

/* alltoall(input, output, count, dtype, stream): `count` elements for each rank */
static PyObject *device_alltoall(PyObject *object, PyObject *args) {
  device_object *self = (device_object *)object;
  device_args a = {0};
  if (!PyArg_ParseTuple(args, "KKnsK", &a.input, &a.output, &a.count, &a.dtype_name, &a.stream))
    return NULL;
  DEVICE_CALL(alltoall, address(a.input), address(a.output), (size_t)a.count, a.dtype,
              address(a.stream));
}

/* send(input, count, dtype, peer, stream) */
static PyObject *device_send(PyObject *object, PyObject *args) {
  device_object *self = (device_object *)object;
  device_args a = {0};
  if (!PyArg_ParseTuple(args, "KnsiK", &a.input, &a.count, &a.dtype_name, &a.root, &a.stream))
    return NULL;
  DEVICE_CALL(send, address(a.input), (size_t)a.count, a.dtype, a.root, address(a.stream));
}

/* recv(output, count, dtype, peer, stream) */
static PyObject *device_recv(PyObject *object, PyObject *args) {
  device_object *self = (device_object *)object;
  device_args a = {0};
  if (!PyArg_ParseTuple(args, "KnsiK", &a.output, &a.count, &a.dtype_name, &a.root, &a.stream))
    return NULL;
  DEVICE_CALL(recv, address(a.output), (size_t)a.count, a.dtype, a.root, address(a.stream));
}

/* ---- Parts -------------------------------------------------------------------------------- */

/* Reads a tuple with a number of elements for each rank. NULL with an exception. */
static size_t *read_counts(device_object *self, PyObject *tuple) {
  size_t *counts = PyMem_Calloc((size_t)self->size, sizeof(*counts));
  if (counts == NULL) PyErr_NoMemory();
  if (counts && PyTuple_Size(tuple) != self->size)
    PyErr_SetString(PyExc_ValueError, "a number of elements is needed for each rank");
  for (int rank = 0; counts && !PyErr_Occurred() && rank < self->size; rank++)
    counts[rank] = PyLong_AsSize_t(PyTuple_GetItem(tuple, rank));
  if (!PyErr_Occurred()) return counts;
  PyMem_Free(counts);
  return NULL;
}

/* alltoallv(input, sends, output, receives, dtype, stream) */
static PyObject *device_alltoallv(PyObject *object, PyObject *args) {
  device_object *self = (device_object *)object;
  device_args a = {0};
  PyObject *sends, *receives, *result = NULL;
  if (!PyArg_ParseTuple(args, "KO!KO!sK", &a.input, &PyTuple_Type, &sends, &a.output, &PyTuple_Type,
                        &receives, &a.dtype_name, &a.stream) ||
      check_args(self, &a) < 0)
    return NULL;
  size_t *sent = read_counts(self, sends), *received = sent ? read_counts(self, receives) : NULL;
  if (received) {
    gil_release();
    result =
        answer(self, ring_device_alltoallv(self->device, address(a.input), sent, address(a.output),
                                           received, a.dtype, address(a.stream)));
  }
  PyMem_Free(sent);
  PyMem_Free(received);
  return result;
}

/* ---- Fusion ------------------------------------------------------------------------------- */

/* Reads a list of (input, output, count). NULL with an exception. */
static ring_buffer *read_buffers(PyObject *list) {
  Py_ssize_t count = PyList_Size(list);
  ring_buffer *buffers = PyMem_Calloc((size_t)count + 1, sizeof(*buffers));
  if (buffers == NULL) PyErr_NoMemory();
  for (Py_ssize_t i = 0; buffers && i < count; i++) {
    unsigned long long input, output;
    Py_ssize_t elements;
    if (!PyArg_ParseTuple(PyList_GetItem(list, i), "KKn", &input, &output, &elements)) {
      PyMem_Free(buffers);
      return NULL;
    }
    buffers[i] = (ring_buffer){address(input), address(output), (size_t)elements};
  }
  return buffers;
}

/* allreduce_group(buffers, dtype, wire, op, prescale, postscale, stream) */
static PyObject *device_allreduce_group(PyObject *object, PyObject *args) {
  device_object *self = (device_object *)object;
  device_args a = {0};
  double prescale, postscale;
  const char *wire_name;
  ring_dtype wire;
  PyObject *list;
  if (!PyArg_ParseTuple(args, "O!sssddK", &PyList_Type, &list, &a.dtype_name, &wire_name,
                        &a.op_name, &prescale, &postscale, &a.stream) ||
      check_args(self, &a) < 0 || read_dtype(device_state(self), wire_name, &wire) < 0)
    return NULL;
  ring_buffer *buffers = read_buffers(list);
  if (buffers == NULL) return NULL;
  size_t count = (size_t)PyList_Size(list);
  gil_release();
  PyObject *result =
      answer(self, ring_device_allreduce_group(self->device, buffers, count, a.dtype, wire, a.op,
                                               prescale, postscale, address(a.stream)));
  PyMem_Free(buffers);
  return result;
}

/* cast(input, dtype, output, output_dtype, count, scale, stream) */
static PyObject *device_cast(PyObject *object, PyObject *args) {
  device_object *self = (device_object *)object;
  device_args a = {0};
  const char *output_name;
  ring_dtype output_dtype;
  double scale;
  if (!PyArg_ParseTuple(args, "KsKsndK", &a.input, &a.dtype_name, &a.output, &output_name, &a.count,
                        &scale, &a.stream) ||
      read_dtype(device_state(self), output_name, &output_dtype) < 0)
    return NULL;
  DEVICE_CALL(cast, address(a.input), a.dtype, address(a.output), output_dtype, (size_t)a.count,
              scale, address(a.stream));
}

/* ---- Waiting, explaining ------------------------------------------------------------------ */

static PyObject *device_wait(PyObject *object, PyObject *args) {
  device_object *self = (device_object *)object;
  unsigned long long stream;
  if (!PyArg_ParseTuple(args, "K", &stream)) return NULL;
  gil_release();
  return answer(self, ring_device_wait(self->device, address(stream)));
}

static PyObject *device_test(PyObject *object, PyObject *args) {
  device_object *self = (device_object *)object;
  unsigned long long stream;
  int done = 0;
  if (!PyArg_ParseTuple(args, "K", &stream)) return NULL;
  gil_release();
  PyObject *nothing = answer(self, ring_device_test(self->device, address(stream), &done));
  if (nothing == NULL) return NULL;
  Py_DECREF(nothing);
  return PyBool_FromLong(done);
}

/* explain(): the fields of DeviceExplanation, in its order. */
static PyObject *device_explain(PyObject *object, PyObject *unused) {
  (void)unused;
  device_object *self = (device_object *)object;
  ring_device_explanation e;
  ring_status status = ring_device_explain(self->device, &e);
  if (status != RING_OK)
    return error_raise(device_state(self), status, ring_device_error(self->device));
  return Py_BuildValue("(ssisiiiKKs)", e.path == RING_DEVICE_NCCL ? "nccl" : "host", e.reason,
                       e.gpu, e.gpu_name, e.nccl_version, e.cuda_version, e.page_locked, e.calls,
                       e.launches, e.text);
}

/* check(): raises the failure of the device, without a question to the GPU, which may capture a graph. */
static PyObject *device_check(PyObject *object, PyObject *unused) {
  PyObject *explanation = device_explain(object, unused);
  if (explanation == NULL) return NULL;
  Py_DECREF(explanation);
  Py_RETURN_NONE;
}

static PyObject *device_alloc(PyObject *object, PyObject *args) {
  device_object *self = (device_object *)object;
  Py_ssize_t bytes;
  if (!PyArg_ParseTuple(args, "n", &bytes)) return NULL;
  return device_memory_make(device_state(self), self->device, (size_t)bytes);
}

/* ---- Its life ----------------------------------------------------------------------------- */

static int read_path(module_state *state, const char *name, ring_device_path *path) {
  static const char *const names[] = {"auto", "nccl", "host"};
  for (int i = 0; i < 3; i++)
    if (strcmp(names[i], name) == 0) {
      *path = (ring_device_path)i;
      return 0;
    }
  error_invalid(state, "path is \"%s\": it must be \"auto\", \"nccl\" or \"host\"", name);
  return -1;
}

PyObject *device_open(PyObject *object, PyObject *args) {
  comm_object *comm = (comm_object *)object;
  module_state *state = comm_state(comm);
  ring_device_options options = RING_DEVICE_OPTIONS_INIT;
  const char *path;
  if (!PyArg_ParseTuple(args, "sizzz", &path, &options.gpu, &options.nccl, &options.cuda,
                        &options.nvrtc) ||
      read_path(state, path, &options.path) < 0)
    return NULL;
  device_object *self = (device_object *)PyType_GenericAlloc(state->device_type, 0);
  if (self == NULL) return NULL;
  self->size = ring_comm_size(comm->comm);
  comm_enter(comm);
  if (!comm_leave(comm, ring_device_open(comm->comm, &options, &self->device))) {
    Py_DECREF((PyObject *)self);
    return NULL;
  }
  ring_device_explanation explanation;
  if (ring_device_explain(self->device, &explanation) == RING_OK) self->gpu = explanation.gpu;
  Py_XDECREF((PyObject *)comm->device);
  Py_INCREF((PyObject *)self);
  comm->device = self;
  return (PyObject *)self;
}

PyObject *device_get(PyObject *object, PyObject *unused) {
  (void)unused;
  const comm_object *comm = (comm_object *)object;
  PyObject *device = comm->device ? (PyObject *)comm->device : Py_None;
  Py_INCREF(device);
  return device;
}

void device_end(device_object *self) {
  bool reported = self->reported;
  if (self->device == NULL) return;
  gil_release();
  PyObject *result = answer(self, ring_device_close(self->device));
  if (result == NULL && reported) PyErr_Clear();
  Py_XDECREF(result);
}

void device_abort(device_object *self, const char *reason) {
  gil_release();
  ring_device_abort(self->device, reason);
  gil_take();
}

static void device_dealloc(PyObject *object) {
  device_object *self = (device_object *)object;
  PyTypeObject *type = Py_TYPE(object);
  if (self->device && !gil_in_hook() && !gil_is_ending()) {
    gil_release();
    ring_device_free(self->device);
    gil_take();
  }
  freefunc free_object = (freefunc)PyType_GetSlot(type, Py_tp_free);
  free_object(object);
  Py_DECREF(type);
}

static PyObject *device_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  (void)type, (void)args, (void)kwargs;
  PyErr_SetString(PyExc_TypeError, "Communicator.device() opens a device");
  return NULL;
}

static PyObject *get_gpu(PyObject *object, void *unused) {
  (void)unused;
  return PyLong_FromLong(((device_object *)object)->gpu);
}

static PyObject *abort_method(PyObject *object, PyObject *args) {
  const char *reason;
  if (!PyArg_ParseTuple(args, "z:abort", &reason)) return NULL;
  device_abort((device_object *)object, reason);
  Py_RETURN_NONE;
}

static PyGetSetDef properties[] = {
    {"gpu", get_gpu, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef methods[] = {
    {"abort", abort_method, METH_VARARGS, NULL},
    {"allreduce", device_allreduce, METH_VARARGS, NULL},
    {"reduce", device_reduce, METH_VARARGS, NULL},
    {"reduce_scatter", device_reduce_scatter, METH_VARARGS, NULL},
    {"broadcast", device_broadcast, METH_VARARGS, NULL},
    {"allgather", device_allgather, METH_VARARGS, NULL},
    {"alltoall", device_alltoall, METH_VARARGS, NULL},
    {"alltoallv", device_alltoallv, METH_VARARGS, NULL},
    {"send", device_send, METH_VARARGS, NULL},
    {"recv", device_recv, METH_VARARGS, NULL},
    {"allreduce_group", device_allreduce_group, METH_VARARGS, NULL},
    {"cast", device_cast, METH_VARARGS, NULL},
    {"wait", device_wait, METH_VARARGS, NULL},
    {"test", device_test, METH_VARARGS, NULL},
    {"explain", device_explain, METH_NOARGS, NULL},
    {"check", device_check, METH_NOARGS, NULL},
    {"alloc", device_alloc, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, device_new},
    {Py_tp_dealloc, device_dealloc},
    {Py_tp_getset, properties},
    {Py_tp_methods, methods},
    {0, NULL},
};

PyType_Spec device_type_spec = {
    .name = "sparkring._core.DeviceHandle",
    .basicsize = sizeof(device_object),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = slots,
};
