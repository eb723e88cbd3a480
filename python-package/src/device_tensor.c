/* SPDX-License-Identifier: Apache-2.0 */
#include "device_tensor.h"

#include "dlpack_dtype.h"
#include "dlpack_input.h"
#include "object.h"

typedef struct tensor_object {
  PyObject_HEAD dlpack_input input;
  Py_buffer buffer;
  dlpack_tensor tensor;
} tensor_object;

PyObject *device_tensor_read(PyObject *module, PyObject *args) {
  PyObject *object, *stream;
  module_state *state = PyModule_GetState(module);
  if (!PyArg_ParseTuple(args, "OO:device_read", &object, &stream)) return NULL;
  tensor_object *self = (tensor_object *)PyType_GenericAlloc(state->device_tensor_type, 0);
  if (self == NULL) return NULL;
  const dlpack_tensor *tensor;
  if (dlpack_input_open_gpu(&self->input, &self->buffer, &tensor, state, object, stream) == 0) {
    self->tensor = *tensor;
    return (PyObject *)self;
  }
  Py_DECREF((PyObject *)self);
  return NULL;
}

/* numbers(): the type of the device and its number, the address, the dtype, the shape, whether the elements are
 * contiguous, and whether they are read-only. */
static PyObject *tensor_numbers(PyObject *object, PyObject *unused) {
  (void)unused;
  const tensor_object *self = (tensor_object *)object;
  char dtype[64];
  dlpack_dtype_print(self->tensor.dtype, dtype, sizeof dtype);
  const char *name = dtype;
  ring_dtype known;
  if (dlpack_dtype_read(self->tensor.dtype, &known)) name = ring_dtype_name(known);
  PyObject *shape = PyTuple_New(self->buffer.ndim);
  for (int i = 0; shape && i < self->buffer.ndim; i++) {
    PyObject *length = PyLong_FromSsize_t(self->buffer.shape[i]);
    if (length == NULL || PyTuple_SetItem(shape, i, length) < 0) Py_CLEAR(shape);
  }
  if (shape == NULL) return NULL;
  return Py_BuildValue("(iiKsNii)", (int)self->tensor.device.type, (int)self->tensor.device.id,
                       (unsigned long long)(uintptr_t)self->buffer.buf, name, shape,
                       self->buffer.strides == NULL, (int)self->buffer.readonly);
}

static void tensor_dealloc(PyObject *object) {
  dlpack_input_close(&((tensor_object *)object)->input);
  object_free(object);
}

OBJECT_REFUSES(tensor_new, "device_read() makes it")

static PyMethodDef methods[] = {
    {"numbers", tensor_numbers, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, tensor_new},
    {Py_tp_dealloc, tensor_dealloc},
    {Py_tp_methods, methods},
    {0, NULL},
};

PyType_Spec device_tensor_type_spec = {
    .name = "sparkring._core.DeviceTensor",
    .basicsize = sizeof(tensor_object),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = slots,
};
