/* SPDX-License-Identifier: Apache-2.0
 *
 * The dtype says of which library the array is: of NumPy, or of PyTorch for a torch.dtype.
 */
#include "empty.h"

#include "dlpack_dtype.h"
#include "dlpack_output.h"
#include "error.h"
#include "memory.h"
#include "view.h"

/* ---- NumPy -------------------------------------------------------------------------------- */

/* A new dtype of NumPy, whose elements are plain numbers. */
static PyObject *read_dtype(module_state *state, PyObject *given, Py_ssize_t *itemsize) {
  PyObject *dtype = PyObject_CallMethod(state->numpy, "dtype", "O", given);
  PyObject *size = dtype ? PyObject_GetAttrString(dtype, "itemsize") : NULL;
  PyObject *objects = size ? PyObject_GetAttrString(dtype, "hasobject") : NULL;
  int refused = objects ? PyObject_IsTrue(objects) : -1;
  if (refused == 0) *itemsize = PyLong_AsSsize_t(size);
  if (refused > 0) error_invalid(state, "dtype is of Python objects, which cannot be shared");
  if (refused != 0) Py_CLEAR(dtype);
  Py_XDECREF(size);
  Py_XDECREF(objects);
  return dtype;
}

static PyObject *make_array(comm_object *self, PyObject *lengths, PyObject *name) {
  Py_ssize_t itemsize = 0;
  PyObject *dtype = read_dtype(comm_state(self), name, &itemsize);
  PyObject *array = dtype ? memory_make_array(self, lengths, dtype, itemsize, true) : NULL;
  Py_XDECREF(dtype);
  return array;
}

/* ---- PyTorch ------------------------------------------------------------------------------ */

/* A new reference to a tensor of a torch.dtype, None for another dtype, or NULL with an exception. */
static PyObject *ask_example(PyObject *dtype) {
  PyObject *module = PyImport_ImportModule("sparkring._arrays");
  PyObject *example = module ? PyObject_CallMethod(module, "example", "O", dtype) : NULL;
  Py_XDECREF(module);
  return example;
}

/* Reads a tuple of lengths; NULL with an exception. */
static Py_ssize_t *read_lengths(module_state *state, PyObject *lengths) {
  Py_ssize_t count = PyTuple_Size(lengths);
  Py_ssize_t *read = PyMem_Calloc((size_t)count + 1, sizeof(*read));
  if (read == NULL) PyErr_NoMemory();
  for (Py_ssize_t i = 0; read && i < count; i++) {
    read[i] = PyNumber_AsSsize_t(PyTuple_GetItem(lengths, i), PyExc_OverflowError);
    if (read[i] < 0 && !PyErr_Occurred())
      error_invalid(state, "shape[%zd] is %zd: it must be 0 or more", i, read[i]);
    if (PyErr_Occurred()) {
      PyMem_Free(read);
      return NULL;
    }
  }
  return read;
}

/* A new tensor with the dtype of an example. */
static PyObject *make_tensor(comm_object *self, PyObject *lengths, PyObject *example) {
  module_state *state = comm_state(self);
  view like;
  int opened = view_open(&like, state, example, "dtype", NULL);
  if (opened == VIEW_ON_GPU) view_refuse_gpu(&like, state);
  if (opened != 0) return NULL;
  Py_ssize_t *shape = read_lengths(state, lengths);
  dlpack_output *made = NULL;
  if (shape)
    made = dlpack_output_make(self, dlpack_dtype_of(like.dtype), -1, shape,
                              (int)PyTuple_Size(lengths), true);
  PyObject *tensor = made ? dlpack_output_wrap(made, like.adapter, example, false) : NULL;
  PyMem_Free(shape);
  view_close(&like);
  return tensor;
}

/* ---- The method --------------------------------------------------------------------------- */

static PyObject *make_kind(comm_object *self, PyObject *lengths, PyObject *dtype) {
  PyObject *example = ask_example(dtype);
  if (example == NULL) return NULL;
  PyObject *made =
      example == Py_None ? make_array(self, lengths, dtype) : make_tensor(self, lengths, example);
  Py_DECREF(example);
  return made;
}

PyObject *empty_call(PyObject *object, PyObject *args) {
  PyObject *shape, *dtype;
  if (!PyArg_ParseTuple(args, "OO:empty", &shape, &dtype)) return NULL;
  PyObject *lengths = PyLong_Check(shape) ? PyTuple_Pack(1, shape) : PySequence_Tuple(shape);
  PyObject *made = lengths ? make_kind((comm_object *)object, lengths, dtype) : NULL;
  Py_XDECREF(lengths);
  return made;
}
