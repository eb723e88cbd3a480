/* SPDX-License-Identifier: Apache-2.0
 *
 * A number becomes a 0-d array as input, and its result becomes a number again. An array of another
 * library gets a result of the same library. Only this file uses the shape of x: the core counts
 * elements.
 */
#include "operands.h"

#include <stdio.h>
#include <string.h>

#include "dlpack_dtype.h"
#include "error.h"
#include "memory.h"

#define SHAPE_TEXT 256 /* more than the core keeps */

static void operands_free(operands *operands) {
  view_close(&operands->in);
  view_close(&operands->out);
  Py_CLEAR(operands->input);
  Py_CLEAR(operands->output);
  Py_CLEAR(operands->x);
  Py_CLEAR(operands->counts);
  dlpack_output_free(operands->tensor);
  PyMem_Free(operands);
}

/* ---- Input -------------------------------------------------------------------------------- */

/* Whether an object is a number of Python or NumPy, which NumPy converts to a 0-d array. */
static bool is_scalar(module_state *state, PyObject *x) {
  if (Py_TYPE(x) == (PyTypeObject *)state->numpy_array) return false;
  return PyLong_Check(x) || PyFloat_Check(x) || PyComplex_Check(x) ||
         PyObject_TypeCheck(x, (PyTypeObject *)state->numpy_scalar);
}

/* NumPy copies an input that the core cannot read in place: contiguous in C order, aligned. */
static int pack_input(operands *operands, module_state *state) {
  if (operands->in.adapter && operands->in.adapter->dlpack) return view_pack(&operands->in);
  view_close(&operands->in);
  PyObject *packed =
      PyObject_CallMethod(state->numpy, "require", "OOs", operands->input, Py_None, "CA");
  if (packed == NULL) return -1;
  Py_DECREF(operands->input);
  operands->input = packed;
  return view_open(&operands->in, state, packed, operands->input_name, operands->dtype);
}

/* `call` is the name of a call that takes no arrays on GPUs, or NULL. */
static int open_gpu_input(operands *operands, comm_object *self, operands_memory memory,
                          const char *call) {
  ring_error error = {.status = RING_UNSUPPORTED, .rank = -1};
  if (call == NULL && memory == OPERANDS_HOST)
    return view_refuse_gpu(&operands->in, comm_state(self));
  operands->device = memory == OPERANDS_GPU         ? GPU_VIEW_OPENS
                     : memory == OPERANDS_APART_GPU ? GPU_VIEW_APART
                                                    : GPU_VIEW_OPEN;
  if (call == NULL)
    return gpu_view_open(&operands->in, self, operands->input, operands->input_name,
                         operands->dtype, operands->device);
  snprintf(error.message, sizeof error.message,
           "%s takes no arrays on GPUs: copy the array to the host, as with x.cpu() or x.get()",
           call);
  error_raise(comm_state(self), RING_UNSUPPORTED, &error);
  return -1;
}

static int open_input(operands *operands, comm_object *self, PyObject *x, operands_memory memory,
                      const char *call) {
  module_state *state = comm_state(self);
  operands->scalar = is_scalar(state, x);
  if (operands->scalar)
    operands->input = PyObject_CallMethod(state->numpy, "asarray", "O", x);
  else
    Py_INCREF(operands->input = x);
  if (operands->input == NULL) return -1;
  int opened =
      view_open(&operands->in, state, operands->input, operands->input_name, operands->dtype);
  if (opened == VIEW_ON_GPU) return open_gpu_input(operands, self, memory, call);
  if (opened < 0) return -1;
  operands->adapter = operands->in.adapter;
  if (operands->adapter) Py_INCREF(operands->x = x);
  if (operands->in.direct || !operands->read) return 0;
  return pack_input(operands, state);
}

static void set_names(operands *operands, int index) {
  if (index < 0) {
    strcpy(operands->input_name, "x");
    strcpy(operands->output_name, "out");
    return;
  }
  snprintf(operands->input_name, sizeof(operands->input_name), "xs[%d]", index);
  snprintf(operands->output_name, sizeof(operands->output_name), "out[%d]", index);
}

static operands *open_any(comm_object *self, PyObject *x, int index, const char *dtype, bool read,
                          operands_memory memory, const char *call) {
  operands *opened = PyMem_Calloc(1, sizeof(*opened));
  if (opened == NULL) {
    PyErr_NoMemory();
    return NULL;
  }
  opened->dtype = dtype;
  opened->read = read;
  opened->prescale = opened->postscale = 1;
  set_names(opened, index);
  if (open_input(opened, self, x, memory, call) == 0) return opened;
  operands_free(opened);
  return NULL;
}

operands *operands_open(comm_object *self, PyObject *x, int index, const char *dtype, bool read,
                        operands_memory memory) {
  return open_any(self, x, index, dtype, read, memory, NULL);
}

operands *operands_open_on_host(comm_object *self, PyObject *x, const char *dtype, bool read,
                                const char *call) {
  return open_any(self, x, -1, dtype, read, OPERANDS_HOST, call);
}

/* ---- Output ------------------------------------------------------------------------------- */

/* A new array with elements like those of x. An array keeps its own dtype. Any other buffer gets
 * the dtype of the same name, where 16-bit words stay words. The shape is as for view_shape(). */
static int make_array(operands *operands, comm_object *self, Py_ssize_t rows, int from) {
  module_state *state = comm_state(self);
  const view *in = &operands->in;
  PyObject *shape = view_shape(in, rows, from);
  if (shape == NULL) return -1;
  const char *name = in->dtype == RING_BFLOAT16 ? "uint16" : ring_dtype_name(in->dtype);
  bool is_array = PyObject_TypeCheck(operands->input, (PyTypeObject *)state->numpy_array);
  PyObject *dtype = is_array ? PyObject_GetAttr(operands->input, state->dtype_name)
                             : PyObject_CallMethod(state->numpy, "dtype", "s", name);
  operands->output = memory_make_result(self, shape, dtype, in->buffer.itemsize);
  return operands->output ? 0 : -1;
}

/* The same as a tensor, which becomes an array of the library of x at the end. */
static int make_tensor(operands *operands, comm_object *self, Py_ssize_t rows, int from) {
  const view *in = &operands->in;
  operands->tensor = dlpack_output_make(self, dlpack_dtype_of(in->dtype), rows,
                                        in->buffer.shape + from, in->buffer.ndim - from, false);
  if (operands->tensor == NULL) return -1;
  view_open_output(&operands->out, dlpack_output_tensor(operands->tensor), operands->output_name,
                   in);
  return 0;
}

static int make_on_gpu(operands *operands, comm_object *self, Py_ssize_t rows, int from) {
  PyObject *shape = view_shape(&operands->in, rows, from);
  int failed = gpu_view_make(&operands->out, self, operands->output_name, &operands->in, shape);
  Py_XDECREF(shape);
  return failed;
}

/* Makes the output and its view. 0, or -1 with an exception. */
static int make_output(operands *operands, comm_object *self, Py_ssize_t rows, int from) {
  const adapter *adapter = operands->adapter;
  if (operands->in.gpu) return make_on_gpu(operands, self, rows, from);
  if (adapter && adapter->dlpack && (adapter->exchange || adapter->wrap))
    return make_tensor(operands, self, rows, from);
  if (make_array(operands, self, rows, from) < 0) return -1;
  return view_open(&operands->out, comm_state(self), operands->output, operands->output_name,
                   operands->dtype);
}

static int make_kind(operands *operands, comm_object *self, operands_kind kind) {
  const view *in = &operands->in;
  int size = ring_comm_size(self->comm);
  if (kind == OPERANDS_ALL) return make_output(operands, self, size, 0);
  if (kind == OPERANDS_PART) return make_output(operands, self, in->buffer.shape[0] / size, 1);
  return make_output(operands, self, -1, 0);
}

/* An argument is in memory of the host, and another one is not. */
static int refuse_mixed(const char *name, module_state *state) {
  error_invalid(state,
                "%s is in the memory of the host, and another array of the call on a GPU: move one",
                name);
  return -1;
}

static int view_given_on_gpu(operands *operands, comm_object *self, PyObject *out) {
  const char *dtype = operands->in.dtype == RING_BFLOAT16 ? "bfloat16" : NULL;
  const gpu_view_device device =
      operands->device == GPU_VIEW_OPENS ? GPU_VIEW_OPEN : operands->device;
  if (gpu_view_open(&operands->out, self, out, operands->output_name, dtype, device) < 0) return -1;
  return gpu_view_join(&operands->in, &operands->out, self);
}

static int view_given(operands *operands, comm_object *self, PyObject *out) {
  Py_INCREF(operands->output = out);
  operands->given = true;
  if (operands->in.gpu) return view_given_on_gpu(operands, self, out);
  int opened =
      view_open(&operands->out, comm_state(self), out, operands->output_name, operands->dtype);
  return opened == VIEW_ON_GPU ? refuse_mixed(operands->input_name, comm_state(self)) : opened;
}

/* The core reads the input while it writes the output. So both must be the same memory or apart.
 * Where one has the parts of all ranks, the other may be this rank's part of it. */
static int check_overlap(const operands *operands, module_state *state, operands_kind kind,
                         size_t rank) {
  const char *in = operands->in.buffer.buf, *out = operands->out.buffer.buf;
  size_t in_bytes = (size_t)operands->in.buffer.len, out_bytes = (size_t)operands->out.buffer.len;
  if (in + in_bytes <= out || out + out_bytes <= in) return 0;
  if (kind == OPERANDS_MIXED) {
    error_invalid(state, "%s overlaps %s, and this is never done in place: pass a copy of %s",
                  operands->output_name, operands->input_name, operands->input_name);
    return -1;
  }
  if (kind == OPERANDS_ALL) out += rank * in_bytes;
  if (kind == OPERANDS_PART) in += rank * out_bytes;
  if (in == out) return 0;
  error_invalid(state, "%s overlaps %s without being in place: pass a copy of %s",
                operands->output_name, operands->input_name, operands->input_name);
  return -1;
}

/* x must be cut into as many equal parts as there are ranks. */
static int check_parts(const operands *operands, module_state *state, int size) {
  if (view_check_rows(&operands->in, state) < 0) return -1;
  Py_ssize_t rows = operands->in.buffer.shape[0];
  if (rows % size == 0) return 0;
  error_invalid(state,
                "the first dimension of x is %zd, which %d ranks cannot share equally: pass a"
                " multiple of %d",
                rows, size, size);
  return -1;
}

static int open_output(operands *operands, comm_object *self, PyObject *out, operands_kind kind) {
  module_state *state = comm_state(self);
  int size = ring_comm_size(self->comm);
  bool cut = kind == OPERANDS_PART || kind == OPERANDS_MIXED;
  if (cut && check_parts(operands, state, size) < 0) return -1;
  operands->same = kind == OPERANDS_SAME;
  if ((out == Py_None ? make_kind(operands, self, kind) : view_given(operands, self, out)) < 0)
    return -1;
  operands->scalar = operands->scalar && out == Py_None && operands->same;
  size_t count = operands->in.count;
  if (kind == OPERANDS_ALL) count *= (size_t)size;
  if (kind == OPERANDS_PART) count /= (size_t)size;
  if (view_check_output(&operands->out, state, &operands->in, count) < 0) return -1;
  if (!operands->read) return 0;
  return check_overlap(operands, state, kind, (size_t)ring_comm_rank(self->comm));
}

int operands_result(operands *operands, comm_object *self, PyObject *out, operands_kind kind) {
  if (open_output(operands, self, out, kind) == 0) return 0;
  operands_free(operands);
  return -1;
}

int operands_make_rows(operands *operands, comm_object *self, Py_ssize_t rows) {
  if (make_output(operands, self, rows, 1) == 0) return 0;
  operands_free(operands);
  return -1;
}

int operands_join(const operands *first, const operands *other, comm_object *self) {
  if ((first->in.gpu == NULL) != (other->in.gpu == NULL))
    return refuse_mixed((first->in.gpu ? other : first)->input_name, comm_state(self));
  return first->in.gpu ? gpu_view_join(&first->in, &other->in, self) : 0;
}

/* ---- Shape -------------------------------------------------------------------------------- */

/* The digest of the dimensions of x, or of its rows, in C order: an R matrix of c(3, 2) has the
 * digest of an array of shape (2, 3). 0 where the count determines the shape. */
static uint64_t shape_digest(const operands *operands) {
  const Py_buffer *buffer = &operands->in.buffer;
  uint64_t digest = RING_DIGEST_EMPTY;
  if (buffer->ndim < 2) return 0;
  for (int i = operands->rows; i < buffer->ndim; i++) {
    uint64_t length = (uint64_t)buffer->shape[i];
    digest = ring_digest_add(digest, &length, sizeof(length));
  }
  return digest;
}

/* Appends "shape (2, 3)" or "rows of shape (3)" to a string. */
static void shape_print(const operands *operands, char *text, size_t size) {
  const Py_buffer *buffer = &operands->in.buffer;
  size_t length = strlen(text);
  length +=
      (size_t)snprintf(text + length, size - length, "%sshape (", operands->rows ? "rows of " : "");
  for (int i = operands->rows; i < buffer->ndim && length < size; i++)
    length += (size_t)snprintf(text + length, size - length, "%zd%s", buffer->shape[i],
                               i + 1 < buffer->ndim ? ", " : ")");
}

/* The digest of a group combines the index and the digest of each array with a digest. */
static uint64_t group_describe(const operands *first, char *text, size_t size) {
  uint64_t all = RING_DIGEST_EMPTY, index = 0;
  for (const operands *o = first; o; o = o->next, index++) {
    uint64_t digest = shape_digest(o);
    if (digest == 0) continue;
    size_t length = strlen(text);
    snprintf(text + length, size - length, "%s%s of ", length > 0 ? ", " : "", o->input_name);
    shape_print(o, text, size);
    all = ring_digest_add(all, &index, sizeof(index));
    all = ring_digest_add(all, &digest, sizeof(digest));
  }
  return all;
}

void operands_describe(const operands *first, comm_object *self) {
  char text[SHAPE_TEXT] = "";
  uint64_t digest;
  if (first == NULL) return;
  if (first->next) {
    digest = group_describe(first, text, sizeof(text));
  } else {
    digest = shape_digest(first);
    if (digest != 0) shape_print(first, text, sizeof(text));
  }
  if (text[0] != '\0') ring_comm_describe(self->comm, digest, text);
}

/* ---- The end ------------------------------------------------------------------------------ */

/* Another rank may send any byte as a bool. Any value except 0 becomes True. */
static void settle(const view *out) {
  char *byte = out->buffer.buf;
  if (out->gpu) return;
  for (size_t i = 0; out->dtype == RING_BOOL && i < out->count; i++) byte[i] = (char)(byte[i] != 0);
}

/* A new reference to the result, in the form that the caller gets. */
static PyObject *take_result(operands *operands) {
  const adapter *adapter = operands->adapter;
  if (operands->out.gpu && !operands->given) return gpu_view_finish(&operands->out);
  if (operands->tensor) {
    dlpack_output *tensor = operands->tensor;
    operands->tensor = NULL;
    return dlpack_output_wrap(tensor, adapter, operands->x, operands->same);
  }
  PyObject *output = operands->output ? operands->output : Py_None;
  if (operands->output && !operands->given && adapter && adapter->wrap)
    return PyObject_CallFunctionObjArgs(adapter->wrap, output, operands->x,
                                        operands->same ? Py_True : Py_False, NULL);
  Py_INCREF(output);
  return output;
}

PyObject *operands_finish(operands *operands, bool succeeded) {
  PyObject *result = NULL;
  if (succeeded) {
    settle(&operands->out);
    result = take_result(operands);
  }
  if (result && operands->counts) {
    PyObject *pair = PyTuple_Pack(2, result, operands->counts);
    Py_DECREF(result);
    result = pair;
  }
  bool scalar = operands->scalar && operands->output;
  operands_free(operands);
  if (result == NULL || !scalar) return result;
  PyObject *nowhere = PyTuple_New(0);
  PyObject *number = nowhere ? PyObject_GetItem(result, nowhere) : NULL;
  Py_XDECREF(nowhere);
  Py_DECREF(result);
  return number;
}

int operands_traverse(const operands *first, visitproc visit, void *arg) {
  for (const operands *o = first; o; o = o->next) {
    Py_VISIT(o->input);
    Py_VISIT(o->output);
    Py_VISIT(o->x);
    Py_VISIT(o->counts);
    Py_VISIT(o->in.buffer.obj);
    Py_VISIT(o->out.buffer.obj);
  }
  return 0;
}

PyObject *operands_finish_list(operands *first, bool succeeded) {
  PyObject *list = succeeded ? PyList_New(0) : NULL;
  while (first) {
    operands *next = first->next;
    PyObject *result = operands_finish(first, list != NULL);
    if (list && (result == NULL || PyList_Append(list, result) < 0)) Py_CLEAR(list);
    Py_XDECREF(result);
    first = next;
  }
  return list;
}
