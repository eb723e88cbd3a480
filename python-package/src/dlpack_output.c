/* SPDX-License-Identifier: Apache-2.0
 *
 * A library may free the tensor in any thread, so the memory belongs to no object of Python. The
 * tensor has both of DLPack's forms, because an exchange takes the new one and some libraries take
 * only the old one.
 */
#include "dlpack_output.h"

#include <stdlib.h>

#include "memory.h"

#define ALIGNMENT 64 /* of memory that JAX and TensorFlow take over without a copy */

struct dlpack_output {
  dlpack_managed managed;
  dlpack_managed_old old;
  void *memory;
  bool shared;
  int64_t extents[]; /* the shape, then the strides */
};

/* ---- Making ------------------------------------------------------------------------------- */

void dlpack_output_free(dlpack_output *output) {
  if (output == NULL) return;
  if (output->shared)
    ring_free(output->memory);
  else
    free(output->memory);
  free(output);
}

static void delete_managed(dlpack_managed *managed) {
  dlpack_output_free(managed->context);
}

static void delete_old(dlpack_managed_old *managed) {
  dlpack_output_free(managed->context);
}

static bool allocate(dlpack_output *output, comm_object *self, size_t bytes) {
  if (output->shared) return ring_alloc(self->comm, bytes, &output->memory) == RING_OK;
  size_t whole = (bytes / ALIGNMENT + 1) * ALIGNMENT;
  output->memory = aligned_alloc(ALIGNMENT, whole);
  return output->memory != NULL;
}

/* The elements of a shape; -1 where their bytes would not fit into memory. */
static Py_ssize_t fill_extents(dlpack_output *output, Py_ssize_t rows, const Py_ssize_t *shape,
                               int ndim, Py_ssize_t itemsize) {
  int64_t *extents = output->extents, *strides = extents + ndim;
  Py_ssize_t elements = 1, step = 1;
  int lead = rows >= 0;
  for (int i = ndim - 1; i >= 0; i--) {
    extents[i] = i < lead ? rows : shape[i - lead];
    strides[i] = step;
    if (extents[i] > 0 && step > PY_SSIZE_T_MAX / itemsize / extents[i]) return -1;
    if (extents[i] > 0) step *= extents[i];
    elements *= extents[i];
  }
  return elements;
}

static void fill(dlpack_output *output, dlpack_dtype dtype, int ndim) {
  dlpack_tensor tensor = {
      .data = output->memory,
      .device = {DLPACK_CPU, 0},
      .ndim = ndim,
      .dtype = dtype,
      .shape = output->extents,
      .strides = output->extents + ndim,
  };
  output->managed = (dlpack_managed){
      .version = {DLPACK_MAJOR, 0}, .context = output, .deleter = delete_managed, .tensor = tensor};
  output->old = (dlpack_managed_old){tensor, output, delete_old};
}

dlpack_output *dlpack_output_make(comm_object *self, dlpack_dtype dtype, Py_ssize_t rows,
                                  const Py_ssize_t *shape, int ndim, bool shared) {
  int dimensions = ndim + (rows >= 0);
  size_t extents = 2 * (size_t)dimensions * sizeof(int64_t);
  dlpack_output *made = calloc(1, sizeof(*made) + extents);
  Py_ssize_t itemsize = dtype.bits / 8;
  Py_ssize_t elements = made ? fill_extents(made, rows, shape, dimensions, itemsize) : -1;
  if (elements >= 0) {
    size_t bytes = (size_t)(elements * itemsize);
    made->shared = memory_is_shared(self, (Py_ssize_t)bytes, shared);
    if (allocate(made, self, bytes)) {
      fill(made, dtype, dimensions);
      return made;
    }
  }
  free(made);
  PyErr_NoMemory();
  return NULL;
}

const dlpack_tensor *dlpack_output_tensor(const dlpack_output *output) {
  return &output->managed.tensor;
}

/* ---- Wrapping ----------------------------------------------------------------------------- */

/* Frees the tensor of a capsule that was not taken over. */
static void delete_capsule(PyObject *capsule) {
  if (!PyCapsule_IsValid(capsule, DLPACK_CAPSULE_OLD)) return;
  dlpack_managed_old *old = PyCapsule_GetPointer(capsule, DLPACK_CAPSULE_OLD);
  old->deleter(old);
}

PyObject *dlpack_output_wrap(dlpack_output *output, const adapter *adapter, PyObject *x,
                             bool same) {
  void *array = NULL;
  if (adapter->exchange) { /* which takes over the tensor also when it fails */
    return adapter->exchange->to_object(&output->managed, &array) == 0 ? array : NULL;
  }
  PyObject *capsule = PyCapsule_New(&output->old, DLPACK_CAPSULE_OLD, delete_capsule);
  if (capsule == NULL) {
    dlpack_output_free(output);
    return NULL;
  }
  array = PyObject_CallFunctionObjArgs(adapter->wrap, capsule, x, same ? Py_True : Py_False, NULL);
  Py_DECREF(capsule);
  return array;
}
