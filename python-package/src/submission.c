/* SPDX-License-Identifier: Apache-2.0
 *
 * A submission keeps the views of its arrays open until it is done. Its result is made by the first wait
 * or test after the end. A submission that is dropped in a hook of the core, or when the interpreter ends, is never
 * freed: the core may use its memory.
 */
#include "submission.h"

#include <string.h>

#include "error.h"
#include "gil.h"
#include "object.h"

static module_state *submission_state(const submission_object *self) {
  return comm_state(self->reducer->comm);
}

submission_object *submission_make(PyTypeObject *type, reducer_object *reducer) {
  module_state *state = comm_state(reducer->comm);
  if (!PyType_IsSubtype(type, state->submission_type)) {
    PyErr_Format(PyExc_TypeError, "%R is not a class of submissions", type);
    return NULL;
  }
  submission_object *self = (submission_object *)PyType_GenericAlloc(type, 0);
  if (self == NULL) return NULL;
  Py_INCREF((PyObject *)reducer);
  self->reducer = reducer;
  self->settled = true;
  return self;
}

/* ---- Results ------------------------------------------------------------------------------ */

/* Copies the output of the core into an array of its rows. */
static PyObject *settle_rows(submission_object *self) {
  int64_t rows;
  void *output = ring_submission_take_output(self->submission, &rows);
  operands *o = self->operands;
  self->operands = NULL;
  if (operands_make_rows(o, self->reducer->comm, (Py_ssize_t)rows) < 0) {
    ring_free(output);
    return NULL;
  }
  if (output) memcpy(o->out.buffer.buf, output, (size_t)o->out.buffer.len);
  ring_free(output);
  return operands_finish(o, true);
}

static PyObject *settle_row_counts(const submission_object *self) {
  const int64_t *rows = ring_submission_rows(self->submission);
  int size = rows ? ring_comm_size(self->reducer->comm->comm) : 0;
  PyObject *list = PyList_New(size);
  for (int r = 0; list && r < size; r++) {
    PyObject *number = PyLong_FromLongLong(rows[r]);
    if (number == NULL || PyList_SetItem(list, r, number) < 0) Py_CLEAR(list);
  }
  return list;
}

static PyObject *settle_result(submission_object *self, bool succeeded) {
  operands *o = self->operands;
  if (succeeded && self->allocates) return settle_rows(self);
  self->operands = NULL;
  if (self->group) return operands_finish_list(o, succeeded);
  if (o) return operands_finish(o, succeeded);
  if (!succeeded) return NULL;
  Py_RETURN_NONE;
}

/* The result of a submission that is done, or NULL with an exception. */
static PyObject *submission_answer(submission_object *self, ring_status status) {
  module_state *state = submission_state(self);
  if (PyErr_Occurred()) return NULL; /* from a signal handler */
  if (status == RING_INVALID) return reducer_raise(self->reducer, status);
  if (!self->settled) {
    self->settled = true;
    self->result = settle_result(self, status == RING_OK);
    if (status == RING_OK && self->result) self->rows = settle_row_counts(self);
    if (status == RING_OK && PyErr_Occurred()) return NULL;
  }
  if (status != RING_OK) return error_raise(state, status, ring_submission_error(self->submission));
  if (self->result == NULL) return error_raise(state, RING_NO_MEMORY, NULL);
  Py_INCREF(self->result);
  return self->result;
}

static PyObject *submission_wait(PyObject *object, PyObject *unused) {
  (void)unused;
  submission_object *self = (submission_object *)object;
  static const ring_error busy = {
      .status = RING_BUSY, .rank = -1, .message = "another thread is waiting for this submission"};
  if (self->waiting) return error_raise(submission_state(self), RING_BUSY, &busy);
  self->waiting = true;
  gil_release();
  ring_status status = ring_submission_wait(self->submission);
  gil_take();
  self->waiting = false;
  return submission_answer(self, status);
}

static PyObject *submission_test(PyObject *object, PyObject *unused) {
  (void)unused;
  submission_object *self = (submission_object *)object;
  int done = 0;
  ring_status status = self->waiting ? RING_OK : ring_submission_test(self->submission, &done);
  if (!done) Py_RETURN_FALSE;
  PyObject *result = submission_answer(self, status);
  if (result == NULL) return NULL;
  Py_DECREF(result);
  Py_RETURN_TRUE;
}

static PyObject *submission_rows(PyObject *object, void *unused) {
  (void)unused;
  submission_object *self = (submission_object *)object;
  PyObject *rows = self->rows ? self->rows : Py_None;
  Py_INCREF(rows);
  return rows;
}

static void submission_dealloc(PyObject *object) {
  submission_object *self = (submission_object *)object;
  int done = 1;
  if (self->submission) ring_submission_test(self->submission, &done);
  bool leaves = !done && (gil_in_hook() || gil_is_ending());
  if (self->submission && !leaves) {
    PyObject *kind, *value, *traceback;
    PyErr_Fetch(&kind, &value, &traceback);
    gil_release();
    ring_submission_free(self->submission);
    gil_take();
    PyErr_Restore(kind, value, traceback);
  }
  if (!leaves) {
    if (!self->settled) Py_XDECREF(settle_result(self, false));
    Py_CLEAR(self->result);
    Py_CLEAR(self->rows);
    Py_CLEAR(self->reducer);
  }
  object_free(object);
}

/* ---- The type ----------------------------------------------------------------------------- */

OBJECT_REFUSES(submission_new, "the methods of a reducer make submissions")

static PyMethodDef methods[] = {
    {"_wait", submission_wait, METH_NOARGS, NULL},
    {"_test", submission_test, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef attributes[] = {
    {"_rows", submission_rows, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, submission_new},
    {Py_tp_dealloc, submission_dealloc},
    {Py_tp_methods, methods},
    {Py_tp_getset, attributes},
    {0, NULL},
};

PyType_Spec submission_type_spec = {
    .name = "sparkring._core.SubmissionBase",
    .basicsize = sizeof(submission_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = slots,
};
