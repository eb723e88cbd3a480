/* SPDX-License-Identifier: Apache-2.0
 *
 * Arrays of other libraries come through their adapter: as an object with a buffer, or by DLPack.
 *
 * The buffer protocol names an element type by a format string of the struct module. This file
 * takes single numbers in native byte order. The error for any other type names the type and the
 * remedy. bfloat16 has no format: its 16-bit words are uint16 unless the argument dtype says
 * "bfloat16", or the object is an array of NumPy's extension type "bfloat16".
 */
#include "view.h"

#include <string.h>

#include "dlpack_dtype.h"
#include "error.h"

#define VIEW_DTYPE_NAME(name, text, bytes) ", " text
#define DTYPE_NAMES (&(RING_DTYPE_MAP(VIEW_DTYPE_NAME))[2])

/* A new str: NumPy's name of the object's element type, or else the buffer's format. */
static PyObject *element_name(PyObject *object, const char *format) {
  PyObject *dtype = PyObject_GetAttrString(object, "dtype");
  if (dtype == NULL) {
    if (PyErr_ExceptionMatches(PyExc_MemoryError)) return NULL;
    PyErr_Clear();
    return PyUnicode_FromFormat("format '%s'", format ? format : "");
  }
  PyObject *name = PyObject_Str(dtype);
  Py_DECREF(dtype);
  return name;
}

static int refuse_elements(module_state *state, PyObject *object, const char *name,
                           const char *format) {
  PyObject *elements = element_name(object, format);
  if (elements == NULL) return -1;
  error_invalid(state,
                "the dtype of %s, %U, is not supported: convert it, as with %s.astype(\"float64\"),"
                " to one of %s",
                name, elements, name, DTYPE_NAMES);
  Py_DECREF(elements);
  return -1;
}

/* A new reference: 16-bit words over the memory of an array of bfloat16, which NumPy does not
 * export. NULL without an exception for anything else, or with MemoryError. */
static PyObject *bfloat16_words(PyObject *object) {
  PyObject *elements = element_name(object, NULL);
  PyObject *words = NULL;
  if (elements && PyUnicode_CompareWithASCIIString(elements, "bfloat16") == 0)
    words = PyObject_CallMethod(object, "view", "s", "uint16");
  Py_XDECREF(elements);
  if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_MemoryError)) PyErr_Clear();
  return words;
}

/* The buffer of a masked array is that of its data. Masked elements hold any number. */
static int refuse_mask(module_state *state, PyObject *object, const char *name) {
  if (Py_TYPE(object) == (PyTypeObject *)state->numpy_array) return 0;
  if (!PyObject_TypeCheck(object, (PyTypeObject *)state->numpy_array)) return 0;
  if (!PyObject_HasAttrString(object, "mask")) return 0;
  error_invalid(state,
                "%s is a masked array, and its mask would be lost: pass %s.filled(0), or fill"
                " in another harmless number",
                name, name);
  return -1;
}

/* Fills view->buffer. Sets *dtype to "bfloat16" when the object turns out to hold it. */
static int acquire(view *view, module_state *state, PyObject *object, const char *name,
                   const char **dtype) {
  if (!PyObject_CheckBuffer(object)) {
    PyObject *type = PyObject_GetAttrString((PyObject *)Py_TYPE(object), "__name__");
    if (type == NULL) return -1;
    error_invalid(state,
                  "%s is of type %U, which has no buffer of numbers: make an array of it with"
                  " numpy.asarray(%s)",
                  name, type, name);
    Py_DECREF(type);
    return -1;
  }
  if (PyObject_GetBuffer(object, &view->buffer, PyBUF_RECORDS_RO) == 0) return 0;
  if (PyErr_ExceptionMatches(PyExc_MemoryError)) return -1;
  PyObject *raised, *value, *traceback;
  PyErr_Fetch(&raised, &value, &traceback);
  if (!PyObject_HasAttrString(object, "dtype")) { /* keep the exception of the object */
    PyErr_Restore(raised, value, traceback);
    return -1;
  }
  Py_XDECREF(raised);
  Py_XDECREF(value);
  Py_XDECREF(traceback);
  PyObject *words = bfloat16_words(object);
  if (words == NULL && PyErr_Occurred()) return -1;
  if (words == NULL) return refuse_elements(state, object, name, NULL);
  *dtype = "bfloat16";
  int failed = PyObject_GetBuffer(words, &view->buffer, PyBUF_RECORDS_RO);
  Py_DECREF(words);
  return failed;
}

static bool is_foreign(char order) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
  return order == '>' || order == '!';
#else
  return order == '<';
#endif
}

/* The dtype of one format letter, whose width is the buffer's; false for an unknown letter. */
static bool letter_dtype(view *view, char letter) {
  static const struct {
    const char *letters;
    ring_dtype dtype;
  } known[] = {{"?", RING_BOOL},        {"bhilqn", RING_INT8},   {"bhilqn", RING_INT16},
               {"bhilqn", RING_INT32},  {"bhilqn", RING_INT64},  {"BHILQN", RING_UINT8},
               {"BHILQN", RING_UINT16}, {"BHILQN", RING_UINT32}, {"BHILQN", RING_UINT64},
               {"e", RING_FLOAT16},     {"f", RING_FLOAT32},     {"d", RING_FLOAT64}};
  for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
    view->dtype = known[i].dtype;
    if (strchr(known[i].letters, letter) &&
        ring_dtype_size(view->dtype) == (size_t)view->buffer.itemsize)
      return true;
  }
  return false;
}

/* The same for the letter of a complex number's parts. */
static bool complex_dtype(view *view, char letter) {
  view->dtype = letter == 'f' ? RING_COMPLEX64 : RING_COMPLEX128;
  return (letter == 'f' || letter == 'd') &&
         ring_dtype_size(view->dtype) == (size_t)view->buffer.itemsize;
}

/* Reads the format into view->dtype. Words of 16 bits are uint16, or bfloat16 with that dtype. */
static int read_format(view *view, module_state *state, PyObject *object, const char *name,
                       const char *dtype) {
  const char *format = view->buffer.format ? view->buffer.format : "B";
  char order = *format && strchr("@=<>!", *format) ? *format++ : '@';
  if (is_foreign(order) && view->buffer.itemsize > 1) {
    error_invalid(state,
                  "%s is in foreign byte order: convert it with"
                  " %s.astype(%s.dtype.newbyteorder(\"=\"))",
                  name, name, name);
    return -1;
  }
  bool complex = format[0] == 'Z';
  if (complex) format++;
  bool single = format[0] != '\0' && format[1] == '\0';
  if (single && *format == 'H' && dtype && strcmp(dtype, "bfloat16") == 0) {
    view->dtype = RING_BFLOAT16;
    return 0;
  }
  if (single && (complex ? complex_dtype(view, *format) : letter_dtype(view, *format))) return 0;
  return refuse_elements(state, object, name, format - complex);
}

static int check_named(const view *view, module_state *state, const char *name, const char *dtype) {
  ring_dtype named;
  if (ring_dtype_parse(dtype, &named) != RING_OK) {
    error_invalid(state, "unknown dtype \"%s\": one of %s", dtype, DTYPE_NAMES);
    return -1;
  }
  if (named == view->dtype) return 0;
  error_invalid(state, "%s holds %s, not %s: convert it with %s.astype(\"%s\")", name,
                ring_dtype_name(view->dtype), dtype, name, dtype);
  return -1;
}

static int open_buffer(view *view, module_state *state, PyObject *object, const char *name,
                       const char *dtype) {
  if (refuse_mask(state, object, name) < 0) return -1;
  if (acquire(view, state, object, name, &dtype) < 0) return -1;
  return read_format(view, state, object, name, dtype);
}

static int refuse_tensor(const view *view, module_state *state, const char *name,
                         dlpack_dtype dtype) {
  char elements[64];
  dlpack_dtype_print(dtype, elements, sizeof(elements));
  PyObject *remedy = PyUnicode_FromFormat(view->adapter->to_dtype, name);
  if (remedy)
    error_invalid(state,
                  "the dtype of %s, %s, is not supported: convert it, as with %U, to one of %s",
                  name, elements, remedy, DTYPE_NAMES);
  Py_XDECREF(remedy);
  return -1;
}

static int open_dlpack(view *view, module_state *state, PyObject *object, const char *name) {
  dlpack_dtype dtype;
  int opened =
      dlpack_input_open(&view->dlpack, &view->buffer, &dtype, state, object, view->adapter, name);
  if (opened != 0) return opened;
  if (dlpack_dtype_read(dtype, &view->dtype)) return 0;
  return refuse_tensor(view, state, name, dtype);
}

static int open_adapted(view *view, module_state *state, PyObject *object, const char *name,
                        const char *dtype) {
  const adapter *adapter = view->adapter;
  PyObject *lent = object;
  if (adapter->on_gpu) return VIEW_ON_GPU;
  if (adapter->lend)
    lent = PyObject_CallFunctionObjArgs(adapter->lend, object, NULL);
  else
    Py_INCREF(object);
  if (lent == NULL) return adapter_refuse(state, object, name);
  int opened = adapter->dlpack ? open_dlpack(view, state, lent, name)
                               : open_buffer(view, state, lent, name, dtype);
  if (opened == 0 && !adapter->writable) view->buffer.readonly = 1;
  Py_DECREF(lent);
  return opened;
}

int view_open(view *view, module_state *state, PyObject *object, const char *name,
              const char *dtype) {
  memset(view, 0, sizeof(*view));
  view->name = name;
  bool own = PyObject_TypeCheck(object, (PyTypeObject *)state->numpy_array);
  if (!own && adapter_find(state, object, &view->adapter) < 0) return -1;
  int opened = (view->adapter ? open_adapted : open_buffer)(view, state, object, name, dtype);
  if (opened == VIEW_ON_GPU) return opened;
  if (opened < 0) goto failed;
  if (dtype && check_named(view, state, name, dtype) < 0) goto failed;
  view->count = (size_t)(view->buffer.len / view->buffer.itemsize);
  bool complex = view->dtype == RING_COMPLEX64 || view->dtype == RING_COMPLEX128;
  uintptr_t alignment = (uintptr_t)view->buffer.itemsize / (complex ? 2 : 1);
  bool aligned = (uintptr_t)view->buffer.buf % alignment == 0;
  view->direct = aligned && PyBuffer_IsContiguous(&view->buffer, 'C');
  return 0;
failed:
  view_close(view);
  return -1;
}

int view_refuse_gpu(const view *view, module_state *state) {
  PyObject *remedy = PyUnicode_FromFormat(view->adapter->to_host, view->name);
  if (remedy)
    error_invalid(state, "%s is in the memory of a GPU, which this call does not read: pass %U",
                  view->name, remedy);
  Py_XDECREF(remedy);
  return -1;
}

int view_pack(view *view) {
  if (dlpack_input_pack(&view->dlpack, &view->buffer) < 0) return -1;
  view->direct = true;
  return 0;
}

void view_open_output(view *view, const dlpack_tensor *tensor, const char *name,
                      const struct view *input) {
  memset(view, 0, sizeof(*view));
  view->name = name;
  view->dtype = input->dtype;
  view->direct = true;
  view->count = 1;
  for (int i = 0; i < tensor->ndim; i++) view->count *= (size_t)tensor->shape[i];
  view->buffer.buf = tensor->data;
  view->buffer.itemsize = input->buffer.itemsize;
  view->buffer.len = (Py_ssize_t)view->count * input->buffer.itemsize;
  view->buffer.ndim = tensor->ndim;
  view->buffer.shape = (Py_ssize_t *)tensor->shape;
}

void view_close(view *view) {
  PyBuffer_Release(&view->buffer);
  dlpack_input_close(&view->dlpack);
  if (view->gpu == NULL) return;
  Py_CLEAR(view->gpu);
  PyMem_Free(view->shape);
  view->shape = NULL;
}

int view_check_output(const view *view, module_state *state, const struct view *input,
                      size_t count) {
  const char *name = view->name;
  if (view->buffer.readonly)
    error_invalid(state, "%s is read-only: pass a writable array", name);
  else if (!view->direct)
    error_invalid(
        state, "%s is not contiguous and aligned: pass an array in C order, as numpy.empty makes",
        name);
  else if (view->dtype != input->dtype)
    error_invalid(state, "%s holds %s and %s %s: the dtypes must be the same", name,
                  ring_dtype_name(view->dtype), input->name, ring_dtype_name(input->dtype));
  else if (view->count != count)
    error_invalid(state, "%s has %zu elements and the result %zu", name, view->count, count);
  else
    return 0;
  return -1;
}

PyObject *view_shape(const view *view, Py_ssize_t rows, int from) {
  int lead = rows >= 0;
  int dimensions = view->buffer.ndim - from + lead;
  PyObject *shape = PyTuple_New(dimensions);
  if (shape == NULL) return NULL;
  for (int i = 0; i < dimensions; i++) {
    PyObject *length = PyLong_FromSsize_t(i < lead ? rows : view->buffer.shape[i - lead + from]);
    if (length == NULL || PyTuple_SetItem(shape, i, length) < 0) {
      Py_DECREF(shape);
      return NULL;
    }
  }
  return shape;
}

int view_check_rows(const view *view, module_state *state) {
  if (view->buffer.ndim > 0) return 0;
  error_invalid(state, "%s is a single number: pass an array, as numpy.atleast_1d(%s) makes",
                view->name, view->name);
  return -1;
}
