/* SPDX-License-Identifier: Apache-2.0
 *
 * NumPy makes an array of any buffer, and keeps the owner of the buffer as the array's base. So a
 * block of shared memory is a Python object with a buffer. It is freed with its last array, also
 * after the end of the communicator.
 */
#include "memory.h"

#include "error.h"
#include "object.h"

/* Results up to this size are in ordinary memory: the core copies short results anyway, and an
 * array in shared memory takes 0.2 us longer to make. */
#define MEMORY_SMALL (32 * 1024)

typedef struct memory_object {
  PyObject_HEAD void *memory;
  Py_ssize_t bytes;
} memory_object;

/* ---- The buffer --------------------------------------------------------------------------- */

static PyObject *memory_make(comm_object *self, Py_ssize_t bytes) {
  module_state *state = comm_state(self);
  memory_object *made = (memory_object *)PyType_GenericAlloc(state->memory_type, 0);
  if (made == NULL) return NULL;
  made->bytes = bytes;
  ring_status status = ring_alloc(self->comm, (size_t)bytes, &made->memory);
  if (status == RING_OK) return (PyObject *)made;
  Py_DECREF((PyObject *)made);
  return PyErr_NoMemory();
}

static int memory_get_buffer(PyObject *object, Py_buffer *view, int flags) {
  const memory_object *self = (memory_object *)object;
  return PyBuffer_FillInfo(view, object, self->memory, self->bytes, 0, flags);
}

static void memory_dealloc(PyObject *object) {
  ring_free(((memory_object *)object)->memory);
  object_free(object);
}

OBJECT_REFUSES(memory_new, "a Memory is made by a Communicator, for its results")

/* ---- Arrays ------------------------------------------------------------------------------- */

/* -1 for a shape that NumPy will refuse. */
static Py_ssize_t count_bytes(PyObject *shape, Py_ssize_t itemsize) {
  Py_ssize_t bytes = itemsize;
  for (Py_ssize_t i = 0; i < PyTuple_Size(shape); i++) {
    Py_ssize_t length = PyNumber_AsSsize_t(PyTuple_GetItem(shape, i), NULL);
    if (length < 0 || (length > 0 && bytes > PY_SSIZE_T_MAX / length)) {
      PyErr_Clear();
      return -1;
    }
    bytes *= length;
  }
  return bytes;
}

/* A rank that is alone on its host shares with no rank, and NumPy's memory is faster to touch. */
bool memory_is_shared(comm_object *self, Py_ssize_t bytes, bool empty) {
  return bytes > (empty ? 0 : MEMORY_SMALL) && ring_comm_local_size(self->comm) > 1;
}

PyObject *memory_make_array(comm_object *self, PyObject *shape, PyObject *dtype,
                            Py_ssize_t itemsize, bool empty) {
  Py_ssize_t bytes = count_bytes(shape, itemsize);
  module_state *state = comm_state(self);
  if (!memory_is_shared(self, bytes, empty))
    return PyObject_CallFunctionObjArgs(state->numpy_empty, shape, dtype, NULL);
  PyObject *memory = memory_make(self, bytes);
  if (memory == NULL) return NULL;
  PyObject *array = PyObject_CallFunctionObjArgs(state->numpy_array, shape, dtype, memory, NULL);
  Py_DECREF(memory);
  return array;
}

PyObject *memory_make_result(comm_object *self, PyObject *shape, PyObject *dtype,
                             Py_ssize_t itemsize) {
  PyObject *array = NULL;
  if (dtype) array = memory_make_array(self, shape, dtype, itemsize, false);
  Py_DECREF(shape);
  Py_XDECREF(dtype);
  return array;
}

/* ---- The type ----------------------------------------------------------------------------- */

static PyType_Slot slots[] = {
    {Py_tp_doc, "Memory that the ranks of a host share; the base of arrays."},
    {Py_tp_new, memory_new},
    {Py_tp_dealloc, memory_dealloc},
    {Py_bf_getbuffer, memory_get_buffer},
    {0, NULL},
};

PyType_Spec memory_type_spec = {
    .name = "sparkring._core.Memory",
    .basicsize = sizeof(memory_object),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = slots,
};
