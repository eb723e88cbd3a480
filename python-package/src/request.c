/* SPDX-License-Identifier: Apache-2.0
 *
 * The type sparkring._core.RequestBase, the base of the class sparkring.Request. The result is made by the first wait or test after the end;
 * until then the views stay open. Each wait makes a new exception from the error in the core: a
 * kept exception would refer to the frames, and so to the request, in a cycle.
 *
 * The core permits one thread at a time in a request, and `waiting` ensures it. A wait, also that
 * of the finaliser, releases the interpreter lock: the thread that runs the request may need the
 * lock for its interrupt hook.
 */
#include "request.h"

#include <stddef.h>

#include "error.h"
#include "gil.h"
#include "object.h"

#include <structmember.h>

request_object *request_make(PyTypeObject *type, comm_object *comm, operands *operands,
                             operands_finish_fn finish, const char *name) {
  request_object *self = (request_object *)PyType_GenericAlloc(type, 0);
  if (self == NULL) {
    finish(operands, false);
    return NULL;
  }
  Py_INCREF((PyObject *)comm);
  self->comm = comm;
  self->operands = operands;
  self->finish = finish;
  self->name = name;
  return self;
}

/* ---- Asking ------------------------------------------------------------------------------- */

/* Closes the operands of a complete request, and makes the result. */
static void request_settle(request_object *self, bool succeeded) {
  operands_finish_fn finish = self->finish;
  if (finish == NULL) return;
  self->finish = NULL;
  if (!succeeded && ring_comm_holds_buffers(self->comm->comm)) return; /* the operands leak */
  self->result = finish(self->operands, succeeded);
}

/* The result of a complete request, or NULL with an exception. RING_INVALID and RING_BUSY are no
 * status of a request: the core returns them in a child of the process that has made the request,
 * and in a handler that interrupts a wait for requests. */
static PyObject *request_answer(request_object *self, ring_status status) {
  module_state *state = comm_state(self->comm);
  if (PyErr_Occurred()) return NULL; /* from a signal handler; the wait can be repeated */
  if (status == RING_INVALID)
    return error_invalid(state, "this request belongs to the process that forked this one");
  if (status == RING_BUSY) return error_raise(state, status, NULL);
  request_settle(self, status == RING_OK);
  if (status != RING_OK) return error_raise(state, status, ring_request_error(self->request));
  if (self->result == NULL) return error_raise(state, RING_NO_MEMORY, NULL);
  Py_INCREF(self->result);
  return self->result;
}

static PyObject *request_wait(PyObject *object, PyObject *unused) {
  (void)unused;
  request_object *self = (request_object *)object;
  static const ring_error busy = {
      .status = RING_BUSY, .rank = -1, .message = "another thread is waiting for this request"};
  if (self->waiting) return error_raise(comm_state(self->comm), RING_BUSY, &busy);
  self->waiting = true;
  gil_release();
  ring_status status = ring_request_wait(self->request);
  gil_take();
  self->waiting = false;
  return request_answer(self, status);
}

/* -1 with an exception. A request that another thread waits for counts as incomplete. */
static int request_is_done(request_object *self, ring_status *status) {
  int done = 0;
  *status = RING_OK;
  if (!self->waiting) *status = ring_request_test(self->request, &done);
  return done;
}

static PyObject *request_test(PyObject *object, PyObject *unused) {
  (void)unused;
  request_object *self = (request_object *)object;
  ring_status status;
  int done = request_is_done(self, &status);
  if (!done && status == RING_OK) Py_RETURN_FALSE;
  PyObject *result = request_answer(self, status);
  if (result == NULL) return NULL;
  Py_DECREF(result);
  Py_RETURN_TRUE;
}

static PyObject *request_repr(PyObject *object) {
  request_object *self = (request_object *)object;
  ring_status status;
  int done = request_is_done(self, &status);
  const char *state = !done ? "under way" : status == RING_OK ? "done" : "failed";
  return PyUnicode_FromFormat("<sparkring.Request %s, %s>", self->name, state);
}

/* ---- Its life ----------------------------------------------------------------------------- */

OBJECT_REFUSES(request_new, "a Request is made by methods of a Communicator, such as"
                            " allreduce_start()")

/* A finaliser cannot raise, so the next code that runs raises Ctrl-C. */
static void request_free(ring_request *request) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  gil_release();
  ring_request_free(request);
  gil_take();
  if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_KeyboardInterrupt)) {
    PyErr_Clear();
    PyErr_SetInterrupt();
  } else if (PyErr_Occurred()) {
    PyErr_WriteUnraisable(Py_None);
  }
  PyErr_Restore(type, value, traceback);
}

/* The rest of a request that a signal handler, or the collector, has dropped inside a wait of the
 * core. The wait may be running the request, so the finaliser cannot wait for it. */
typedef struct request_rest {
  ring_request *request;
  comm_object *comm;
  operands *operands;
  operands_finish_fn finish;
} request_rest;

static int request_end_rest(void *arg) {
  request_rest *rest = arg;
  if (gil_in_hook()) return Py_AddPendingCall(request_end_rest, rest), 0;
  request_free(rest->request);
  bool leaks = ring_comm_holds_buffers(rest->comm->comm);
  if (rest->finish && !leaks) rest->finish(rest->operands, false);
  Py_DECREF((PyObject *)rest->comm);
  PyMem_Free(rest);
  return 0;
}

/* The interpreter frees the rest between two instructions of the main thread, but not in a signal
 * handler. Where the call cannot be scheduled, the rest is never freed. */
static void request_free_later(request_object *self) {
  request_rest *rest = PyMem_Malloc(sizeof(*rest));
  if (rest) {
    *rest = (request_rest){self->request, self->comm, self->operands, self->finish};
    Py_AddPendingCall(request_end_rest, rest);
  }
  self->comm = NULL;
  self->finish = NULL;
}

/* At the end of the interpreter no wait may block for ever: the communicator is aborted. Where a
 * thread was stopped inside the communicator, it cannot be aborted, and nothing is freed. */
static void request_free_at_end(request_object *self) {
  ring_status status;
  if (!request_is_done(self, &status)) {
    gil_release();
    ring_comm_abort(self->comm->comm, "its process ended without closing it");
    gil_take();
  }
  if (request_is_done(self, &status)) {
    request_free(self->request);
    return;
  }
  self->comm = NULL;
  self->finish = NULL;
}

/* An array may refer to its request. The communicator refers to nothing. */
static int request_traverse(PyObject *object, visitproc visit, void *arg) {
  request_object *self = (request_object *)object;
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(self->result);
  return self->finish ? operands_traverse(self->operands, visit, arg) : 0;
}

/* The core may use the arrays of an incomplete request, so its collection is delayed. */
static int request_clear(PyObject *object) {
  request_object *self = (request_object *)object;
  ring_status status;
  if (self->request && !request_is_done(self, &status)) return 0;
  request_settle(self, false);
  Py_CLEAR(self->result);
  return 0;
}

static void request_dealloc(PyObject *object) {
  request_object *self = (request_object *)object;
  PyObject_GC_UnTrack(object);
  if (self->weakrefs) PyObject_ClearWeakRefs(object);
  if (self->request && gil_in_hook())
    request_free_later(self);
  else if (self->request && gil_is_ending())
    request_free_at_end(self);
  else if (self->request)
    request_free(self->request);
  request_settle(self, false);
  Py_CLEAR(self->result);
  Py_CLEAR(self->comm);
  object_free(object);
}

/* ---- The type ----------------------------------------------------------------------------- */

static PyMethodDef methods[] = {
    {"_wait", request_wait, METH_NOARGS, NULL},
    {"_test", request_test, METH_NOARGS, NULL},
    {"__class_getitem__", Py_GenericAlias, METH_O | METH_CLASS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(request_object, weakrefs), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, request_new},           {Py_tp_dealloc, request_dealloc},
    {Py_tp_traverse, request_traverse}, {Py_tp_clear, request_clear},
    {Py_tp_repr, request_repr},         {Py_tp_methods, methods},
    {Py_tp_members, members},           {0, NULL},
};

PyType_Spec request_type_spec = {
    .name = "sparkring._core.RequestBase",
    .basicsize = sizeof(request_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = slots,
};
