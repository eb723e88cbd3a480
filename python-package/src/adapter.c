/* SPDX-License-Identifier: Apache-2.0
 *
 * The types that were seen last are kept in a table by their address. The table owns them, so that
 * an address stands for one type. Adapters are few, one for each library, and stay until the end
 * of the module.
 */
#include "adapter.h"

#include <stdint.h>

#include "error.h"

/* ---- Making ------------------------------------------------------------------------------- */

static void adapter_free(adapter *adapter) {
  Py_XDECREF(adapter->source);
  Py_XDECREF(adapter->lend);
  Py_XDECREF(adapter->wrap);
  PyMem_Free(adapter);
}

/* A new reference to an attribute; *missing for None. */
static int read_callable(PyObject *source, const char *name, PyObject **callable) {
  *callable = PyObject_GetAttrString(source, name);
  if (*callable == NULL) return -1;
  if (*callable == Py_None) Py_CLEAR(*callable);
  return 0;
}

static int read_flag(PyObject *source, const char *name, bool *flag) {
  PyObject *value = PyObject_GetAttrString(source, name);
  if (value == NULL) return -1;
  *flag = value == Py_True;
  Py_DECREF(value);
  return 0;
}

/* A string that lives as long as its source. */
static int read_string(PyObject *source, const char *name, const char **string) {
  PyObject *value = PyObject_GetAttrString(source, name);
  *string = value ? PyUnicode_AsUTF8AndSize(value, NULL) : NULL;
  Py_XDECREF(value);
  return *string ? 0 : -1;
}

/* The functions that a type exports; NULL where there are none, or of another major version. */
static const dlpack_exchange *read_exchange(PyTypeObject *type) {
  PyObject *capsule = PyObject_GetAttrString((PyObject *)type, "__dlpack_c_exchange_api__");
  const dlpack_exchange *exchange = NULL;
  if (capsule && PyCapsule_IsValid(capsule, DLPACK_CAPSULE_EXCHANGE))
    exchange = PyCapsule_GetPointer(capsule, DLPACK_CAPSULE_EXCHANGE);
  PyErr_Clear();
  Py_XDECREF(capsule);
  while (exchange && exchange->version.major != DLPACK_MAJOR) exchange = exchange->previous;
  return exchange;
}

static adapter *adapter_make(PyObject *source, const dlpack_exchange *exchange) {
  adapter *made = PyMem_Calloc(1, sizeof(*made));
  if (made == NULL) {
    PyErr_NoMemory();
    return NULL;
  }
  Py_INCREF(made->source = source);
  made->exchange = exchange;
  if (read_callable(source, "lend", &made->lend) == 0 &&
      read_callable(source, "wrap", &made->wrap) == 0 &&
      read_flag(source, "dlpack", &made->dlpack) == 0 &&
      read_flag(source, "writable", &made->writable) == 0 &&
      read_flag(source, "on_gpu", &made->on_gpu) == 0 &&
      read_string(source, "to_host", &made->to_host) == 0 &&
      read_string(source, "to_dtype", &made->to_dtype) == 0)
    return made;
  adapter_free(made);
  return NULL;
}

/* ---- Finding ------------------------------------------------------------------------------ */

/* Asks Python for the adapter of an object. 0, or -1 with an exception. */
static int adapter_ask(module_state *state, PyObject *object, const adapter **found) {
  PyObject *module = PyImport_ImportModule("sparkring._arrays");
  PyObject *source = module ? PyObject_CallMethod(module, "find", "(O)", object) : NULL;
  Py_XDECREF(module);
  *found = NULL;
  if (source == NULL) return -1;
  if (source == Py_None) {
    Py_DECREF(source);
    return 0;
  }
  adapter *known = state->adapters;
  const dlpack_exchange *exchange = read_exchange(Py_TYPE(object));
  while (known && (known->source != source || known->exchange != exchange)) known = known->next;
  if (known == NULL) {
    known = adapter_make(source, exchange);
    if (known) {
      known->next = state->adapters;
      state->adapters = known;
    }
  }
  Py_DECREF(source);
  *found = known;
  return known ? 0 : -1;
}

int adapter_find(module_state *state, PyObject *object, const adapter **found) {
  PyTypeObject *type = Py_TYPE(object);
  adapter_entry *entry = &state->adapter_of[((uintptr_t)type >> 5) % ADAPTER_TYPES];
  if (entry->type == type) {
    *found = entry->adapter;
    return 0;
  }
  if (adapter_ask(state, object, found) < 0) return -1;
  PyTypeObject *before = entry->type;
  Py_INCREF((PyObject *)type);
  entry->type = type;
  entry->adapter = *found;
  Py_XDECREF((PyObject *)before);
  return 0;
}

int adapter_traverse(module_state *state, visitproc visit, void *arg) {
  for (int i = 0; i < ADAPTER_TYPES; i++) Py_VISIT(state->adapter_of[i].type);
  for (const adapter *known = state->adapters; known; known = known->next) {
    Py_VISIT(known->source);
    Py_VISIT(known->lend);
    Py_VISIT(known->wrap);
  }
  return 0;
}

void adapter_clear(module_state *state) {
  for (int i = 0; i < ADAPTER_TYPES; i++) Py_CLEAR(state->adapter_of[i].type);
  while (state->adapters) {
    adapter *next = state->adapters->next;
    adapter_free(state->adapters);
    state->adapters = next;
  }
}

/* ---- Errors ------------------------------------------------------------------------------- */

/* A new reference: the first line of an exception. The others may be a trace of C++. */
static PyObject *first_line(PyObject *exception) {
  PyObject *text = PyObject_Str(exception);
  PyObject *lines = text ? PyUnicode_Splitlines(text, 0) : NULL;
  Py_XDECREF(text);
  PyObject *line = lines && PyList_Size(lines) > 0 ? PyList_GetItem(lines, 0) : NULL;
  if (line) Py_INCREF(line);
  if (lines && line == NULL) line = PyUnicode_FromString("");
  Py_XDECREF(lines);
  return line;
}

int adapter_refuse(module_state *state, PyObject *object, const char *name) {
  if (!PyErr_ExceptionMatches(PyExc_Exception) || PyErr_ExceptionMatches(PyExc_MemoryError))
    return -1;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  PyObject *kind = PyObject_GetAttrString((PyObject *)Py_TYPE(object), "__name__");
  PyObject *reason = kind ? first_line(value) : NULL;
  if (reason)
    error_invalid(state, "%s, of type %U, gives no access to its memory: %U", name, kind, reason);
  Py_XDECREF(reason);
  Py_XDECREF(kind);
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(traceback);
  return -1;
}
