/* SPDX-License-Identifier: Apache-2.0
 *
 * A type with an exchange (dlpack_abi.h) gives a tensor by a call of C. Any other type gives a
 * capsule that holds one. A capsule that this file has taken over is renamed, and the deleter of
 * its tensor is called once.
 */
#include "dlpack_input.h"

#include <string.h>

#include "error.h"

#define DIMENSIONS_MOST 64 /* of NumPy */

_Static_assert(sizeof(Py_ssize_t) == sizeof(int64_t), "a shape of DLPack is one of Python");

/* A deleter may run Python, which takes no exception of an earlier call. */
static void call_deleter(dlpack_input *input) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  if (input->managed && input->managed->deleter) input->managed->deleter(input->managed);
  if (input->old && input->old->deleter) input->old->deleter(input->old);
  PyErr_Restore(type, value, traceback);
}

void dlpack_input_close(dlpack_input *input) {
  if (input->managed || input->old) call_deleter(input);
  PyMem_Free(input->strides);
  PyMem_Free(input->copy);
  memset(input, 0, sizeof(*input));
}

/* ---- Devices ------------------------------------------------------------------------------ */

/* 0, DLPACK_INPUT_ON_GPU, or -1 with an exception. */
static int check_device(module_state *state, dlpack_device device, const adapter *adapter,
                        const char *name) {
  if (device.type == DLPACK_CPU || device.type == DLPACK_CUDA_HOST ||
      device.type == DLPACK_ROCM_HOST)
    return 0;
  if (device.type == DLPACK_CUDA || device.type == DLPACK_CUDA_MANAGED) return DLPACK_INPUT_ON_GPU;
  PyObject *remedy = PyUnicode_FromFormat(adapter->to_host, name);
  if (remedy)
    error_invalid(
        state,
        "%s is in the memory of %s (device %d:%d of DLPack), which this call does not read: pass"
        " %U",
        name, device.type == DLPACK_ROCM ? "a ROCm GPU" : "another device", (int)device.type,
        (int)device.id, remedy);
  Py_XDECREF(remedy);
  return -1;
}

/* Asks before the memory is asked for, which may take a copy or a wait for the device. */
static int check_device_first(module_state *state, PyObject *object, const adapter *adapter,
                              const char *name) {
  PyObject *pair = PyObject_CallMethod(object, "__dlpack_device__", NULL);
  dlpack_device device;
  int read =
      pair && PyTuple_Check(pair) ? PyArg_ParseTuple(pair, "ii", &device.type, &device.id) : 0;
  if (pair && !PyTuple_Check(pair))
    PyErr_SetString(PyExc_TypeError, "__dlpack_device__() is no tuple");
  Py_XDECREF(pair);
  return read ? check_device(state, device, adapter, name) : adapter_refuse(state, object, name);
}

/* ---- Capsules ----------------------------------------------------------------------------- */

/* The capsule of an object, for a stream of a GPU or NULL. Producers before version 1 have no argument
 * max_version. */
static PyObject *ask_capsule(PyObject *object, PyObject *stream) {
  PyObject *method = PyObject_GetAttrString(object, "__dlpack__");
  PyObject *nothing = method ? PyTuple_New(0) : NULL;
  PyObject *keywords = nothing ? PyDict_New() : NULL;
  PyObject *version = keywords ? Py_BuildValue("(ii)", DLPACK_MAJOR, 0) : NULL;
  PyObject *capsule = NULL;
  if (version && (stream == NULL || PyDict_SetItemString(keywords, "stream", stream) == 0) &&
      PyDict_SetItemString(keywords, "max_version", version) == 0)
    capsule = PyObject_Call(method, nothing, keywords);
  if (version && capsule == NULL && PyErr_ExceptionMatches(PyExc_TypeError)) {
    PyErr_Clear();
    if (PyDict_DelItemString(keywords, "max_version") == 0)
      capsule = PyObject_Call(method, nothing, keywords);
  }
  Py_XDECREF(version);
  Py_XDECREF(keywords);
  Py_XDECREF(nothing);
  Py_XDECREF(method);
  return capsule;
}

/* Takes over the tensor of a capsule. 0, or -1 with an exception. */
static int take_capsule(dlpack_input *input, PyObject *capsule) {
  if (PyCapsule_IsValid(capsule, DLPACK_CAPSULE)) {
    input->managed = PyCapsule_GetPointer(capsule, DLPACK_CAPSULE);
    return PyCapsule_SetName(capsule, DLPACK_CAPSULE_USED);
  }
  if (PyCapsule_IsValid(capsule, DLPACK_CAPSULE_OLD)) {
    input->old = PyCapsule_GetPointer(capsule, DLPACK_CAPSULE_OLD);
    return PyCapsule_SetName(capsule, DLPACK_CAPSULE_OLD_USED);
  }
  PyErr_SetString(PyExc_TypeError,
                  "__dlpack__() has returned no capsule of a tensor, or a used one");
  return -1;
}

/* ---- The tensor --------------------------------------------------------------------------- */

/* Why the numbers of a tensor make no array; NULL when they do. Sets *elements. */
static const char *find_fault(const dlpack_tensor *tensor, Py_ssize_t itemsize,
                              Py_ssize_t *elements) {
  *elements = 1;
  if (tensor->ndim < 0 || tensor->ndim > DIMENSIONS_MOST)
    return "its number of dimensions is not 0 to 64";
  if (tensor->ndim > 0 && tensor->shape == NULL) return "it has no shape";
  bool empty = false;
  for (int i = 0; i < tensor->ndim; i++) {
    if (tensor->shape[i] < 0) return "a dimension is negative";
    empty = empty || tensor->shape[i] == 0;
  }
  if (empty) *elements = 0;
  for (int i = 0; i < tensor->ndim && !empty; i++) {
    if (tensor->shape[i] > PY_SSIZE_T_MAX / itemsize / *elements)
      return "its elements do not fit into memory";
    *elements *= tensor->shape[i];
  }
  if (tensor->data == NULL && !empty) return "its address is null";
  return NULL;
}

static bool is_contiguous(const dlpack_tensor *tensor, Py_ssize_t elements) {
  int64_t step = 1;
  if (tensor->strides == NULL || elements == 0) return true;
  for (int i = tensor->ndim - 1; i >= 0; i--) {
    if (tensor->shape[i] != 1 && tensor->strides[i] != step) return false;
    step *= tensor->shape[i];
  }
  return true;
}

static int fill_strides(dlpack_input *input, const dlpack_tensor *tensor, Py_buffer *buffer) {
  Py_ssize_t *strides = PyMem_Malloc(sizeof(*strides) * (size_t)tensor->ndim);
  if (strides == NULL) {
    PyErr_NoMemory();
    return -1;
  }
  for (int i = 0; i < tensor->ndim; i++)
    strides[i] = (Py_ssize_t)((uint64_t)tensor->strides[i] * (uint64_t)buffer->itemsize);
  input->strides = buffer->strides = strides;
  return 0;
}

static int read_tensor(dlpack_input *input, Py_buffer *buffer, const dlpack_tensor *tensor) {
  static char nothing[16]; /* the address of an array without elements */
  buffer->itemsize = tensor->dtype.bits / 8 * tensor->dtype.lanes;
  if (buffer->itemsize == 0) buffer->itemsize = 1; /* narrower types are refused by their dtype */
  Py_ssize_t elements;
  const char *fault = find_fault(tensor, buffer->itemsize, &elements);
  if (fault) {
    PyErr_Format(PyExc_BufferError, "the tensor of __dlpack__() is broken: %s", fault);
    return -1;
  }
  buffer->buf = tensor->data ? (char *)tensor->data + tensor->byte_offset : nothing;
  buffer->len = elements * buffer->itemsize;
  buffer->ndim = tensor->ndim;
  buffer->shape = (Py_ssize_t *)tensor->shape;
  return is_contiguous(tensor, elements) ? 0 : fill_strides(input, tensor, buffer);
}

/* ---- All of it ---------------------------------------------------------------------------- */

/* Obtains the tensor of the object. 0, or -1 with an exception of the producer. */
static int obtain_capsule(dlpack_input *input, PyObject *object, PyObject *stream) {
  PyObject *capsule = PyCapsule_CheckExact(object) ? object : ask_capsule(object, stream);
  if (capsule == object) Py_INCREF(object);
  int failed = capsule ? take_capsule(input, capsule) : -1;
  Py_XDECREF(capsule);
  return failed;
}

static int obtain(dlpack_input *input, PyObject *object, const adapter *adapter) {
  if (adapter->exchange) return adapter->exchange->from_object(object, &input->managed);
  return obtain_capsule(input, object, NULL);
}

/* Before version 1 a tensor has no flag that it is read-only. A copy is no place for a result. */
static bool is_read_only(const dlpack_input *input) {
  uint64_t flags = input->managed ? input->managed->flags : 0;
  return (flags & (DLPACK_READ_ONLY | DLPACK_IS_COPIED)) != 0;
}

/* Checks what was obtained. NULL with an exception. */
static const dlpack_tensor *find_tensor(const dlpack_input *input, module_state *state,
                                        PyObject *object, const char *name) {
  if (input->old == NULL && input->managed == NULL) {
    PyErr_SetString(PyExc_BufferError, "it has returned no tensor");
    adapter_refuse(state, object, name);
    return NULL;
  }
  if (input->managed && input->managed->version.major != DLPACK_MAJOR)
    PyErr_Format(PyExc_BufferError, "its tensor is of version %u of DLPack, not 1",
                 (unsigned)input->managed->version.major);
  if (PyErr_Occurred()) {
    adapter_refuse(state, object, name);
    return NULL;
  }
  return input->old ? &input->old->tensor : &input->managed->tensor;
}

static int open_tensor(dlpack_input *input, Py_buffer *buffer, dlpack_dtype *dtype,
                       module_state *state, PyObject *object, const adapter *adapter,
                       const char *name) {
  const dlpack_tensor *tensor = find_tensor(input, state, object, name);
  int on = tensor ? check_device(state, tensor->device, adapter, name) : -1;
  if (on != 0) return on;
  if (read_tensor(input, buffer, tensor) < 0) return adapter_refuse(state, object, name);
  buffer->readonly = !adapter->writable || is_read_only(input);
  *dtype = tensor->dtype;
  return 0;
}

int dlpack_input_open(dlpack_input *input, Py_buffer *buffer, dlpack_dtype *dtype,
                      module_state *state, PyObject *object, const adapter *adapter,
                      const char *name) {
  memset(buffer, 0, sizeof(*buffer));
  bool asks = adapter->exchange == NULL && !PyCapsule_CheckExact(object);
  int opened = asks ? check_device_first(state, object, adapter, name) : 0;
  if (opened != 0) return opened;
  if (obtain(input, object, adapter) < 0) {
    dlpack_input_close(input);
    return adapter_refuse(state, object, name);
  }
  opened = open_tensor(input, buffer, dtype, state, object, adapter, name);
  if (opened != 0) dlpack_input_close(input);
  return opened;
}

int dlpack_input_open_gpu(dlpack_input *input, Py_buffer *buffer, const dlpack_tensor **tensor,
                          module_state *state, PyObject *object, PyObject *stream) {
  memset(buffer, 0, sizeof(*buffer));
  memset(input, 0, sizeof(*input));
  *tensor = NULL;
  if (obtain_capsule(input, object, stream) < 0)
    adapter_refuse(state, object, "x");
  else
    *tensor = find_tensor(input, state, object, "x");
  if (*tensor && read_tensor(input, buffer, *tensor) == 0) {
    buffer->readonly = is_read_only(input);
    return 0;
  }
  if (*tensor) adapter_refuse(state, object, "x");
  dlpack_input_close(input);
  return -1;
}

int dlpack_input_pack(dlpack_input *input, Py_buffer *buffer) {
  void *copy = PyMem_Malloc((size_t)buffer->len);
  if (copy == NULL) {
    PyErr_NoMemory();
    return -1;
  }
  input->copy = copy;
  if (PyBuffer_ToContiguous(copy, buffer, buffer->len, 'C') < 0) return -1;
  buffer->buf = copy;
  buffer->strides = NULL;
  return 0;
}
