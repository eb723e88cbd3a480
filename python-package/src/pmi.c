/* SPDX-License-Identifier: Apache-2.0 */
#include "pmi.h"

#include "error.h"
#include "gil.h"
#include "object.h"

typedef struct pmi_object {
  PyObject_HEAD comm_object *comm;
  ring_pmi *pmi; /* NULL: freed */
} pmi_object;

/* The server, or NULL with an exception. */
static ring_pmi *pmi_get(PyObject *object) {
  const pmi_object *self = (const pmi_object *)object;
  if (self->pmi == NULL) error_invalid(comm_state(self->comm), "the PMI server was freed");
  return self->pmi;
}

static PyObject *pmi_raise(const pmi_object *self, ring_status status) {
  return error_raise(comm_state(self->comm), status, ring_pmi_error(self->pmi));
}

PyObject *pmi_serve(PyObject *module, PyObject *args) {
  module_state *state = PyModule_GetState(module);
  PyObject *comm;
  int pmix;
  if (!PyArg_ParseTuple(args, "O!p:pmi_serve", state->comm_type, &comm, &pmix)) return NULL;
  pmi_object *self = (pmi_object *)PyType_GenericAlloc(state->pmi_type, 0);
  if (self == NULL) return NULL;
  Py_INCREF(comm);
  self->comm = (comm_object *)comm;
  comm_enter(self->comm);
  ring_status status = ring_pmi_serve(self->comm->comm, pmix, &self->pmi);
  if (comm_leave(self->comm, status)) return (PyObject *)self;
  Py_DECREF((PyObject *)self);
  return NULL;
}

/* environment(): a list of "NAME=value" */
static PyObject *pmi_environment(PyObject *object, PyObject *unused) {
  (void)unused;
  const ring_pmi *pmi = pmi_get(object);
  if (pmi == NULL) return NULL;
  PyObject *list = PyList_New(0);
  const char *const *entry = ring_pmi_environment(pmi);
  for (; list && *entry; entry++) {
    PyObject *text = PyUnicode_FromString(*entry);
    if (text == NULL || PyList_Append(list, text) < 0) Py_CLEAR(list);
    Py_XDECREF(text);
  }
  return list;
}

/* pmix_problem(): why programs are not served by PMIx, or None */
static PyObject *pmi_pmix_problem(PyObject *object, PyObject *unused) {
  (void)unused;
  const ring_pmi *pmi = pmi_get(object);
  if (pmi == NULL) return NULL;
  return Py_BuildValue("z", ring_pmi_pmix_problem(pmi));
}

static PyObject *pmi_fd(PyObject *object, PyObject *unused) {
  (void)unused;
  ring_pmi *pmi = pmi_get(object);
  return pmi ? PyLong_FromLong(ring_pmi_fd(pmi)) : NULL;
}

static PyObject *pmi_started(PyObject *object, PyObject *unused) {
  (void)unused;
  ring_pmi *pmi = pmi_get(object);
  if (pmi == NULL) return NULL;
  ring_pmi_started(pmi);
  Py_RETURN_NONE;
}

/* test(): (state, exit code of MPI_Abort) */
static PyObject *pmi_test(PyObject *object, PyObject *unused) {
  (void)unused;
  static const char *const names[] = {"silent", "active", "finalized", "aborted", "lost"};
  const pmi_object *self = (const pmi_object *)object;
  ring_pmi_state state = RING_PMI_SILENT;
  int exit_code = 0;
  if (pmi_get(object) == NULL) return NULL;
  ring_status status = ring_pmi_test(self->pmi, &state, &exit_code);
  if (status != RING_OK) return pmi_raise(self, status);
  return Py_BuildValue("si", names[state], exit_code);
}

static PyObject *pmi_close(PyObject *object, PyObject *unused) {
  (void)unused;
  const pmi_object *self = (const pmi_object *)object;
  if (pmi_get(object) == NULL) return NULL;
  gil_release();
  ring_status status = ring_pmi_close(self->pmi);
  gil_take();
  if (PyErr_Occurred()) return NULL; /* from a signal handler */
  if (status != RING_OK) return pmi_raise(self, status);
  Py_RETURN_NONE;
}

static PyObject *pmi_abort(PyObject *object, PyObject *args) {
  const char *reason;
  ring_pmi *pmi = pmi_get(object);
  if (pmi == NULL || !PyArg_ParseTuple(args, "s:abort", &reason)) return NULL;
  gil_release();
  ring_pmi_abort(pmi, reason);
  gil_take();
  Py_RETURN_NONE;
}

/* Aborts it first where it is not closed. */
static PyObject *pmi_free(PyObject *object, PyObject *unused) {
  (void)unused;
  pmi_object *self = (pmi_object *)object;
  ring_pmi *pmi = self->pmi;
  self->pmi = NULL;
  gil_release();
  ring_pmi_free(pmi);
  gil_take();
  Py_RETURN_NONE;
}

static void pmi_dealloc(PyObject *object) {
  pmi_object *self = (pmi_object *)object;
  if (self->pmi && !gil_in_hook() && !gil_is_ending()) {
    gil_release();
    ring_pmi_free(self->pmi);
    gil_take();
  }
  Py_CLEAR(self->comm);
  object_free(object);
}

OBJECT_REFUSES(pmi_new, "Communicator.mpi_run() starts PMI servers")

static PyMethodDef pmi_methods[] = {
    {"environment", pmi_environment, METH_NOARGS, NULL},
    {"pmix_problem", pmi_pmix_problem, METH_NOARGS, NULL},
    {"fd", pmi_fd, METH_NOARGS, NULL},
    {"started", pmi_started, METH_NOARGS, NULL},
    {"test", pmi_test, METH_NOARGS, NULL},
    {"close", pmi_close, METH_NOARGS, NULL},
    {"abort", pmi_abort, METH_VARARGS, NULL},
    {"free", pmi_free, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot pmi_slots[] = {
    {Py_tp_new, pmi_new},
    {Py_tp_dealloc, pmi_dealloc},
    {Py_tp_methods, pmi_methods},
    {0, NULL},
};

PyType_Spec pmi_type_spec = {
    .name = "sparkring._core.PmiHandle",
    .basicsize = sizeof(pmi_object),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = pmi_slots,
};
