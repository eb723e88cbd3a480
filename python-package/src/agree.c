/* SPDX-License-Identifier: Apache-2.0 */
#include "agree.h"

#include <string.h>

#include "bindings/agree.h"
#include "bindings/strings.h"

/* A new reference to the bytes that `string` views, or NULL with an exception. */
static PyObject *view_string(PyObject *text, ring_string *string) {
  PyObject *bytes = PyUnicode_AsEncodedString(text, "utf-8", "replace");
  if (bytes == NULL) return NULL;
  *string = (ring_string){PyBytes_AsString(bytes), (size_t)PyBytes_Size(bytes)};
  return bytes;
}

PyObject *agree_call(PyObject *object, PyObject *failure) {
  comm_object *self = (comm_object *)object;
  ring_agreement agreement = {0};
  ring_string text;
  PyObject *bytes = failure == Py_None ? NULL : view_string(failure, &text);
  if (bytes == NULL && failure != Py_None) return NULL;
  comm_enter(self);
  bool succeeded = comm_leave(self, ring_agree(self->comm, bytes ? &text : NULL, &agreement));
  Py_XDECREF(bytes);
  PyObject *result = NULL;
  if (succeeded && agreement.text == NULL) {
    Py_INCREF(Py_None);
    result = Py_None;
  }
  if (succeeded && agreement.text != NULL) {
    PyObject *why =
        PyUnicode_DecodeUTF8(agreement.text, (Py_ssize_t)strlen(agreement.text), "replace");
    result = Py_BuildValue("iN", agreement.rank, why);
  }
  ring_agreement_free(&agreement);
  return result;
}

static PyObject *list_of_rank(const ring_string *strings, size_t count) {
  PyObject *list = PyList_New((Py_ssize_t)count);
  for (size_t i = 0; list && i < count; i++) {
    PyObject *text =
        PyUnicode_DecodeUTF8(strings[i].bytes, (Py_ssize_t)strings[i].length, "replace");
    if (text == NULL || PyList_SetItem(list, (Py_ssize_t)i, text) < 0) Py_CLEAR(list);
  }
  return list;
}

static PyObject *list_of_ranks(const ring_strings *all, int size) {
  PyObject *lists = PyList_New(size);
  const ring_string *strings = all->strings;
  for (int rank = 0; lists && rank < size; strings += all->counts[rank++]) {
    PyObject *list = list_of_rank(strings, all->counts[rank]);
    if (list == NULL || PyList_SetItem(lists, rank, list) < 0) Py_CLEAR(lists);
  }
  return lists;
}

/* Encodes each string: a new list that owns the bytes which mine[] views, or NULL with an exception. */
static PyObject *view_strings(PyObject *strings, ring_string *mine) {
  Py_ssize_t count = PyList_Size(strings);
  PyObject *owner = PyList_New(count);
  for (Py_ssize_t i = 0; owner && i < count; i++) {
    PyObject *bytes = view_string(PyList_GetItem(strings, i), &mine[i]);
    if (bytes == NULL || PyList_SetItem(owner, i, bytes) < 0) Py_CLEAR(owner);
  }
  return owner;
}

PyObject *agree_strings(PyObject *object, PyObject *strings) {
  comm_object *self = (comm_object *)object;
  Py_ssize_t count = PyList_Size(strings);
  if (count < 0) return NULL;
  ring_string *mine = PyMem_Calloc((size_t)count + 1, sizeof *mine);
  if (mine == NULL) return PyErr_NoMemory();
  PyObject *result = NULL, *owner = view_strings(strings, mine);
  if (owner != NULL) {
    ring_strings all;
    comm_enter(self);
    ring_status status = ring_strings_allgather(self->comm, mine, (size_t)count, &all);
    if (comm_leave(self, status)) result = list_of_ranks(&all, ring_comm_size(self->comm));
    ring_strings_free(&all);
  }
  Py_XDECREF(owner);
  PyMem_Free(mine);
  return result;
}
