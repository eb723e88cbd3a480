/* SPDX-License-Identifier: Apache-2.0
 *
 * A capsule refers to the object, whose memory several capsules may share. A library may delete a tensor in any
 * thread, so the deleter acquires the interpreter lock.
 */
#include "device_memory.h"

#include <stdbool.h>
#include <stdlib.h>

#include "dlpack_dtype.h"
#include "error.h"
#include "gil.h"
#include "object.h"

typedef struct memory_object {
  PyObject_HEAD ring_device_memory *memory;
} memory_object;

typedef struct device_export {
  dlpack_managed managed;
  dlpack_managed_old old;
  PyObject *owner;
  int64_t extents[]; /* the shape, then the strides */
} device_export;

/* ---- The object --------------------------------------------------------------------------- */

PyObject *device_memory_make(module_state *state, ring_device *device, size_t bytes) {
  memory_object *made = (memory_object *)PyType_GenericAlloc(state->device_memory_type, 0);
  if (made == NULL) return NULL;
  ring_status status = ring_device_memory_alloc(device, bytes, &made->memory);
  if (status == RING_OK) return (PyObject *)made;
  Py_DECREF((PyObject *)made);
  return error_raise(state, status, ring_device_error(device));
}

static PyObject *get_address(PyObject *object, void *unused) {
  (void)unused;
  const memory_object *self = (memory_object *)object;
  return PyLong_FromVoidPtr(ring_device_memory_address(self->memory));
}

static void memory_dealloc(PyObject *object) {
  memory_object *self = (memory_object *)object;
  if (self->memory && !gil_in_hook() && !gil_is_ending()) {
    gil_release();
    ring_device_memory_free(self->memory);
    gil_take();
  }
  object_free(object);
}

OBJECT_REFUSES(memory_new, "memory of a GPU is made by a device, for its results")

/* ---- Capsules ----------------------------------------------------------------------------- */

static void free_export(device_export *of) {
  PyGILState_STATE lock = PyGILState_Ensure();
  Py_DECREF(of->owner);
  PyGILState_Release(lock);
  free(of);
}

static void delete_managed(dlpack_managed *managed) {
  free_export(managed->context);
}

static void delete_old(dlpack_managed_old *managed) {
  free_export(managed->context);
}

/* Frees the tensor of a capsule that was not taken over. */
static void delete_capsule(PyObject *capsule) {
  device_export *of = NULL;
  if (PyCapsule_IsValid(capsule, DLPACK_CAPSULE))
    of = ((dlpack_managed *)PyCapsule_GetPointer(capsule, DLPACK_CAPSULE))->context;
  else if (PyCapsule_IsValid(capsule, DLPACK_CAPSULE_OLD))
    of = ((dlpack_managed_old *)PyCapsule_GetPointer(capsule, DLPACK_CAPSULE_OLD))->context;
  if (of) free_export(of);
}

/* Reads the shape. 0, or -1 with an exception. */
static int fill_extents(device_export *of, PyObject *shape) {
  Py_ssize_t ndim = PyTuple_Size(shape);
  int64_t step = 1;
  for (Py_ssize_t i = ndim - 1; i >= 0; i--) {
    of->extents[i] = PyLong_AsLongLong(PyTuple_GetItem(shape, i));
    of->extents[ndim + i] = step;
    if (of->extents[i] > 0) step *= of->extents[i];
  }
  return PyErr_Occurred() ? -1 : 0;
}

static void fill(device_export *of, memory_object *self, ring_dtype dtype, int gpu, int ndim) {
  dlpack_tensor tensor = {
      .data = ring_device_memory_address(self->memory),
      .device = {DLPACK_CUDA, gpu},
      .ndim = ndim,
      .dtype = dlpack_dtype_of(dtype),
      .shape = of->extents,
      .strides = of->extents + ndim,
  };
  Py_INCREF((PyObject *)self);
  of->owner = (PyObject *)self;
  of->managed = (dlpack_managed){
      .version = {DLPACK_MAJOR, 0}, .context = of, .deleter = delete_managed, .tensor = tensor};
  of->old = (dlpack_managed_old){tensor, of, delete_old};
}

/* dlpack(dtype, shape, gpu, versioned) */
static PyObject *memory_dlpack(PyObject *object, PyObject *args) {
  memory_object *self = (memory_object *)object;
  const char *name;
  PyObject *shape;
  int gpu, versioned;
  ring_dtype dtype;
  if (!PyArg_ParseTuple(args, "sO!ip", &name, &PyTuple_Type, &shape, &gpu, &versioned)) return NULL;
  if (ring_dtype_parse(name, &dtype) != RING_OK) {
    PyErr_Format(PyExc_ValueError, "unknown dtype %s", name);
    return NULL;
  }
  size_t extents = 2 * (size_t)PyTuple_Size(shape) * sizeof(int64_t);
  device_export *made = calloc(1, sizeof(*made) + extents);
  if (made == NULL) return PyErr_NoMemory();
  if (fill_extents(made, shape) < 0) {
    free(made);
    return NULL;
  }
  fill(made, self, dtype, gpu, (int)PyTuple_Size(shape));
  PyObject *capsule = versioned ? PyCapsule_New(&made->managed, DLPACK_CAPSULE, delete_capsule)
                                : PyCapsule_New(&made->old, DLPACK_CAPSULE_OLD, delete_capsule);
  if (capsule == NULL) free_export(made);
  return capsule;
}

/* ---- The type ----------------------------------------------------------------------------- */

static PyGetSetDef properties[] = {
    {"address", get_address, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef methods[] = {
    {"dlpack", memory_dlpack, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, memory_new},
    {Py_tp_dealloc, memory_dealloc},
    {Py_tp_getset, properties},
    {Py_tp_methods, methods},
    {0, NULL},
};

PyType_Spec device_memory_type_spec = {
    .name = "sparkring._core.DeviceMemory",
    .basicsize = sizeof(memory_object),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = slots,
};
