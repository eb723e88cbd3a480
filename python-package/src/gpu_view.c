/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu_view.h"

#include "device.h"
#include "error.h"

/* sparkring._device.calls.<name>(...). */
static PyObject *call_module(const char *name, PyObject *args) {
  PyObject *module = args ? PyImport_ImportModule("sparkring._device.calls") : NULL;
  PyObject *function = module ? PyObject_GetAttrString(module, name) : NULL;
  PyObject *result = function ? PyObject_CallObject(function, args) : NULL;
  Py_XDECREF(function);
  Py_XDECREF(module);
  Py_XDECREF(args);
  return result;
}

/* Memory of the GPU, or a stream. */
static void *read_address(PyObject *number) {
  return (void *)(uintptr_t)PyLong_AsUnsignedLongLong(
      number); /* NOLINT(performance-no-int-to-ptr): Python has no pointers */
}

static int read_shape(view *view, PyObject *shape) {
  Py_ssize_t ndim = PyTuple_Size(shape);
  if (ndim < 0) return -1;
  view->shape = PyMem_Calloc((size_t)ndim + 1, sizeof(*view->shape));
  if (view->shape == NULL) return PyErr_NoMemory(), -1;
  view->count = 1;
  for (Py_ssize_t i = 0; i < ndim; i++) {
    view->shape[i] = PyLong_AsSsize_t(PyTuple_GetItem(shape, i));
    view->count *= (size_t)view->shape[i];
  }
  view->buffer.ndim = (int)ndim;
  view->buffer.shape = view->shape;
  view->buffer.len = (Py_ssize_t)view->count * view->buffer.itemsize;
  return PyErr_Occurred() ? -1 : 0;
}

static int read_dtype(view *view, module_state *state, const char *name) {
  if (ring_dtype_parse(name, &view->dtype) != RING_OK) {
    error_invalid(state,
                  "arrays on GPUs of the dtype %s are not supported: convert %s, as to float32",
                  name, view->name);
    return -1;
  }
  view->buffer.itemsize = (Py_ssize_t)ring_dtype_size(view->dtype);
  return 0;
}

int gpu_view_open(view *view, comm_object *comm, PyObject *object, const char *name,
                  const char *dtype, gpu_view_device device) {
  static const char *const names[] = {"opens", "open", "apart"};
  PyObject *address, *shape, *stream;
  const char *read;
  int readonly;
  *view = (struct view){.name = name, .direct = true};
  view->gpu =
      call_module("view", Py_BuildValue("(OOszs)", comm, object, name, dtype, names[device]));
  if (view->gpu &&
      PyArg_ParseTuple(view->gpu, "OOsOpO", &address, &shape, &read, &stream, &readonly,
                       &view->gpu_array) &&
      read_dtype(view, comm_state(comm), read) == 0 && read_shape(view, shape) == 0) {
    view->buffer.buf = read_address(address);
    view->buffer.readonly = readonly;
    view->stream = read_address(stream);
    if (!PyErr_Occurred()) return 0;
  }
  view_close(view);
  return -1;
}

int gpu_view_make(view *view, comm_object *comm, const char *name, const struct view *input,
                  PyObject *shape) {
  PyObject *address;
  *view = (struct view){.name = name, .direct = true, .dtype = input->dtype};
  view->stream = input->stream;
  view->buffer.itemsize = input->buffer.itemsize;
  view->gpu =
      shape ? call_module("make", Py_BuildValue("(OOO)", comm, input->gpu_array, shape)) : NULL;
  if (view->gpu && PyArg_ParseTuple(view->gpu, "OO", &address, &view->gpu_array) &&
      read_shape(view, shape) == 0) {
    view->buffer.buf = read_address(address);
    if (!PyErr_Occurred()) return 0;
  }
  view_close(view);
  return -1;
}

PyObject *gpu_view_finish(const view *view) {
  return PyObject_CallObject(view->gpu_array, NULL);
}

int gpu_view_join(const view *view, const struct view *other, comm_object *comm) {
  if (view->stream == other->stream) return 0;
  if (comm->device != NULL) return device_join(comm->device, other->stream);
  error_invalid(comm_state(comm),
                "%s and %s are on different streams: use one stream for all arrays of the call, or "
                "call comm.device() on all ranks first",
                view->name, other->name);
  return -1;
}
