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
#include "object.h"

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

void device_note(device_object *self, ring_status status) {
  self->reported = self->reported || (status != RING_INVALID && status != RING_BUSY);
}

/* None on success, or NULL with an exception. */
static PyObject *answer(device_object *self, ring_status status) {
  gil_take();
  if (status == RING_OK && !PyErr_Occurred()) Py_RETURN_NONE;
  device_note(self, status);
  return error_raise(device_state(self), status, ring_device_error(self->device));
}

/* ---- Parts -------------------------------------------------------------------------------- */

/* Reads a tuple with a number of elements for each rank. NULL with an exception. */
static size_t *read_counts(int size, PyObject *tuple) {
  size_t *counts = PyMem_Calloc((size_t)size, sizeof(*counts));
  if (counts == NULL) PyErr_NoMemory();
  if (counts && PyTuple_Size(tuple) != size)
    PyErr_SetString(PyExc_ValueError, "a number of elements is needed for each rank");
  for (int rank = 0; counts && !PyErr_Occurred() && rank < size; rank++)
    counts[rank] = PyLong_AsSize_t(PyTuple_GetItem(tuple, rank));
  if (!PyErr_Occurred()) return counts;
  PyMem_Free(counts);
  return NULL;
}

PyObject *device_exchange(PyObject *object, PyObject *args) {
  comm_object *comm = (comm_object *)object;
  unsigned long long input, output, stream;
  PyObject *sends, *receives;
  bool succeeded = false;
  if (!PyArg_ParseTuple(args, "KO!KO!K", &input, &PyTuple_Type, &sends, &output, &PyTuple_Type,
                        &receives, &stream))
    return NULL;
  int size = ring_comm_size(comm->comm);
  size_t *sent = read_counts(size, sends), *received = sent ? read_counts(size, receives) : NULL;
  if (received) {
    ring_comm_on_device(comm->comm, comm->device->device, address(stream));
    comm_enter(comm);
    ring_status status =
        ring_alltoallv(comm->comm, address(input), sent, address(output), received, RING_UINT8);
    succeeded = comm_leave(comm, status);
    if (!succeeded) device_note(comm->device, status);
  }
  PyMem_Free(sent);
  PyMem_Free(received);
  if (!succeeded) return NULL;
  Py_RETURN_NONE;
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
  module_state *state = device_state(self);
  unsigned long long stream;
  double prescale, postscale;
  const char *dtype_name, *wire_name, *op_name;
  ring_dtype dtype, wire;
  ring_op op;
  PyObject *list;
  if (!PyArg_ParseTuple(args, "O!sssddK", &PyList_Type, &list, &dtype_name, &wire_name, &op_name,
                        &prescale, &postscale, &stream) ||
      collective_parse_op(state, op_name, &op) < 0 || read_dtype(state, dtype_name, &dtype) < 0 ||
      read_dtype(state, wire_name, &wire) < 0)
    return NULL;
  ring_buffer *buffers = read_buffers(list);
  if (buffers == NULL) return NULL;
  size_t count = (size_t)PyList_Size(list);
  gil_release();
  PyObject *result =
      answer(self, ring_device_allreduce_group(self->device, buffers, count, dtype, wire, op,
                                               prescale, postscale, address(stream)));
  PyMem_Free(buffers);
  return result;
}

/* cast(input, dtype, output, output_dtype, count, scale, stream) */
static PyObject *device_cast(PyObject *object, PyObject *args) {
  device_object *self = (device_object *)object;
  module_state *state = device_state(self);
  unsigned long long input, output, stream;
  Py_ssize_t count;
  const char *name, *output_name;
  ring_dtype dtype, output_dtype;
  double scale;
  if (!PyArg_ParseTuple(args, "KsKsndK", &input, &name, &output, &output_name, &count, &scale,
                        &stream) ||
      read_dtype(state, name, &dtype) < 0 || read_dtype(state, output_name, &output_dtype) < 0)
    return NULL;
  gil_release();
  return answer(self, ring_device_cast(self->device, address(input), dtype, address(output),
                                       output_dtype, (size_t)count, scale, address(stream)));
}

/* ---- Waiting, explaining ------------------------------------------------------------------ */

static PyObject *device_wait(PyObject *object, PyObject *args) {
  device_object *self = (device_object *)object;
  unsigned long long stream;
  if (!PyArg_ParseTuple(args, "K", &stream)) return NULL;
  gil_release();
  return answer(self, ring_device_wait(self->device, address(stream)));
}

int device_join(device_object *self, void *stream) {
  gil_release();
  PyObject *nothing = answer(self, ring_device_wait(self->device, stream));
  Py_XDECREF(nothing);
  return nothing ? 0 : -1;
}

PyObject *device_request_make(device_object *self, void *stream, PyObject *result) {
  PyObject *module = PyImport_ImportModule("sparkring._device.calls");
  PyObject *request = module ? PyObject_CallMethod(module, "DeviceRequest", "OKN", self,
                                                   (unsigned long long)(uintptr_t)stream, result)
                             : NULL;
  if (module == NULL) Py_DECREF(result);
  Py_XDECREF(module);
  return request;
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

PyObject *device_tell(const ring_device_explanation *e) {
  return Py_BuildValue("(ssisiiiKKs)", e->path == RING_DEVICE_NCCL ? "nccl" : "host", e->reason,
                       e->gpu, e->gpu_name, e->nccl_version, e->cuda_version, e->page_locked,
                       e->calls, e->launches, e->text);
}

static PyObject *device_explain(PyObject *object, PyObject *unused) {
  (void)unused;
  device_object *self = (device_object *)object;
  ring_device_explanation explanation;
  ring_status status = ring_device_explain(self->device, &explanation);
  if (status == RING_OK) return device_tell(&explanation);
  return error_raise(device_state(self), status, ring_device_error(self->device));
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

int device_read_path(module_state *state, const char *name, ring_device_path *path) {
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
      device_read_path(state, path, &options.path) < 0)
    return NULL;
  device_object *self = (device_object *)PyType_GenericAlloc(state->device_type, 0);
  if (self == NULL) return NULL;
  comm_enter(comm);
  if (!comm_leave(comm, ring_device_open(comm->comm, &options, &self->device))) {
    Py_DECREF((PyObject *)self);
    return NULL;
  }
  ring_device_explanation explanation;
  if (ring_device_explain(self->device, &explanation) == RING_OK) {
    self->gpu = explanation.gpu;
    self->has_nccl = explanation.path == RING_DEVICE_NCCL;
  }
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
  if (self->device && !gil_in_hook() && !gil_is_ending()) {
    gil_release();
    ring_device_free(self->device);
    gil_take();
  }
  object_free(object);
}

OBJECT_REFUSES(device_new, "Communicator.device() opens a device")

static PyObject *get_gpu(PyObject *object, void *unused) {
  (void)unused;
  return PyLong_FromLong(((device_object *)object)->gpu);
}

static PyObject *get_path(PyObject *object, void *unused) {
  (void)unused;
  return PyUnicode_FromString(((device_object *)object)->has_nccl ? "nccl" : "host");
}

static PyObject *abort_method(PyObject *object, PyObject *args) {
  const char *reason;
  if (!PyArg_ParseTuple(args, "z:abort", &reason)) return NULL;
  device_abort((device_object *)object, reason);
  Py_RETURN_NONE;
}

static PyGetSetDef properties[] = {
    {"gpu", get_gpu, NULL, NULL, NULL},
    {"path", get_path, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef methods[] = {
    {"abort", abort_method, METH_VARARGS, NULL},
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
