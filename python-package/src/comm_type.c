/* SPDX-License-Identifier: Apache-2.0
 *
 * The Python type sparkring.Communicator: its properties, its methods, its end. It is a final heap
 * type whose one reference, to its device, leads nowhere, so it needs no cycle collector. Only
 * sparkring.init makes communicators.
 */
#include <stddef.h>

#include "agree.h"
#include "arguments.h"
#include "collective.h"
#include "comm.h"
#include "device.h"
#include "empty.h"
#include "error.h"
#include "explain.h"
#include "group.h"
#include "message.h"
#include "nccl.h"
#include "parts.h"
#include "port.h"
#include "trace.h"

#include <structmember.h>

/* ---- Properties --------------------------------------------------------------------------- */

static ring_comm *inner(PyObject *self) {
  return ((comm_object *)self)->comm;
}

static PyObject *get_rank(PyObject *self, void *unused) {
  (void)unused;
  return PyLong_FromLong(ring_comm_rank(inner(self)));
}

static PyObject *get_size(PyObject *self, void *unused) {
  (void)unused;
  return PyLong_FromLong(ring_comm_size(inner(self)));
}

static PyObject *get_local_rank(PyObject *self, void *unused) {
  (void)unused;
  return PyLong_FromLong(ring_comm_local_rank(inner(self)));
}

static PyObject *get_local_size(PyObject *self, void *unused) {
  (void)unused;
  return PyLong_FromLong(ring_comm_local_size(inner(self)));
}

static PyObject *get_hosts(PyObject *self, void *unused) {
  (void)unused;
  int size = ring_comm_size(inner(self));
  PyObject *hosts = PyList_New(size);
  for (int rank = 0; hosts && rank < size; rank++) {
    PyObject *host = PyUnicode_FromString(ring_comm_host(inner(self), rank));
    if (host == NULL || PyList_SetItem(hosts, rank, host) < 0) Py_CLEAR(hosts);
  }
  return hosts;
}

static PyObject *get_epoch(PyObject *self, void *unused) {
  (void)unused;
  return PyLong_FromUnsignedLongLong(ring_comm_epoch(inner(self)));
}

static PyObject *get_authenticated(PyObject *self, void *unused) {
  (void)unused;
  return PyBool_FromLong(ring_comm_authenticated(inner(self)));
}

static PyObject *get_encrypted(PyObject *self, void *unused) {
  (void)unused;
  return PyBool_FromLong(ring_comm_encrypted(inner(self)));
}

static PyObject *get_closed(PyObject *self, void *unused) {
  (void)unused;
  return PyBool_FromLong(((comm_object *)self)->closed);
}

static PyObject *get_usable(PyObject *self, void *unused) {
  (void)unused;
  return PyBool_FromLong(!((comm_object *)self)->closed && ring_comm_usable(inner(self)));
}

static int check_peer(PyObject *self, int peer) {
  int size = ring_comm_size(inner(self));
  if (peer >= 0 && peer < size) return 0;
  error_invalid(comm_state((comm_object *)self), "peer %d is outside 0 to %d", peer, size - 1);
  return -1;
}

static PyObject *comm_counters(PyObject *self, PyObject *args, PyObject *kwargs) {
  static char *names[] = {"peer", NULL};
  PyObject *peer = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:counters", names, &peer)) return NULL;
  int rank = -1;
  if (peer != Py_None) {
    if (arguments_read_int(comm_state((comm_object *)self), peer, "peer", &rank) < 0) return NULL;
    if (check_peer(self, rank) < 0) return NULL;
  }
  ring_counters counters;
  ring_status status = ring_comm_counters(inner(self), rank, &counters);
  if (status != RING_OK) return error_raise(comm_state((comm_object *)self), status, NULL);
  return Py_BuildValue("{s:K,s:K,s:K,s:K,s:K,s:K,s:K}", "calls", counters.calls, "bytes_sent",
                       counters.bytes_sent, "bytes_received", counters.bytes_received,
                       "bytes_shared", counters.bytes_shared, "messages_sent",
                       counters.messages_sent, "messages_received", counters.messages_received,
                       "wait_ns", counters.wait_ns);
}

static PyObject *comm_link(PyObject *self, PyObject *args, PyObject *kwargs) {
  static char *names[] = {"peer", NULL};
  PyObject *given;
  int peer;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:link", names, &given)) return NULL;
  if (arguments_read_int(comm_state((comm_object *)self), given, "peer", &peer) < 0) return NULL;
  if (check_peer(self, peer) < 0) return NULL;
  return PyUnicode_FromString(ring_comm_link(inner(self), peer));
}

static PyObject *comm_repr(PyObject *self) {
  const ring_comm *comm = inner(self);
  const char *life = ((comm_object *)self)->closed ? "closed"
                     : ring_comm_usable(comm)      ? "open"
                                                   : "broken";
  return PyUnicode_FromFormat(
      "<sparkring.Communicator rank %d of %d on %s, local rank %d of %d, %s%s, %s>",
      ring_comm_rank(comm), ring_comm_size(comm), ring_comm_host(comm, ring_comm_rank(comm)),
      ring_comm_local_rank(comm), ring_comm_local_size(comm),
      ring_comm_authenticated(comm) ? "authenticated" : "not authenticated",
      ring_comm_encrypted(comm) ? ", encrypted" : "", life);
}

/* ---- Its life ----------------------------------------------------------------------------- */

static PyObject *comm_self(PyObject *self, PyObject *unused) {
  (void)unused;
  Py_INCREF(self);
  return self;
}

static PyObject *comm_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  (void)type, (void)args, (void)kwargs;
  PyErr_SetString(PyExc_TypeError, "a Communicator is made by sparkring.init()");
  return NULL;
}

/* The warning must not refer to the object, which is being deallocated. */
static void warn_unclosed(comm_object *self) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  if (PyErr_ResourceWarning(NULL, 1,
                            "communicator of rank %d of %d was collected while open, and is"
                            " aborted: close it, or use `with sparkring.init() as comm:`",
                            ring_comm_rank(self->comm), ring_comm_size(self->comm)) < 0)
    PyErr_WriteUnraisable((PyObject *)Py_TYPE((PyObject *)self));
  PyErr_Restore(type, value, traceback);
}

static void comm_dealloc(PyObject *object) {
  comm_object *self = (comm_object *)object;
  PyTypeObject *type = Py_TYPE(object);
  if (self->weakrefs) PyObject_ClearWeakRefs(object);
  if (self->comm && !self->closed && ring_comm_usable(self->comm)) warn_unclosed(self);
  trace_end(self);
  Py_XDECREF((PyObject *)self->device);
  ring_comm_free(self->comm);
  freefunc free_object = (freefunc)PyType_GetSlot(type, Py_tp_free);
  free_object(object);
  Py_DECREF(type);
}

/* ---- The type ----------------------------------------------------------------------------- */

/* Docstrings of properties and methods are in Python (docstring.h). */
static PyGetSetDef properties[] = {
    {"rank", get_rank, NULL, NULL, NULL},
    {"size", get_size, NULL, NULL, NULL},
    {"local_rank", get_local_rank, NULL, NULL, NULL},
    {"local_size", get_local_size, NULL, NULL, NULL},
    {"hosts", get_hosts, NULL, NULL, NULL},
    {"epoch", get_epoch, NULL, NULL, NULL},
    {"authenticated", get_authenticated, NULL, NULL, NULL},
    {"encrypted", get_encrypted, NULL, NULL, NULL},
    {"closed", get_closed, NULL, NULL, NULL},
    {"usable", get_usable, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

#define WITH_KEYWORDS(function) ((PyCFunction)(void (*)(void))(function))
#define KEYWORDS (METH_VARARGS | METH_KEYWORDS)
#define VECTORCALL (METH_FASTCALL | METH_KEYWORDS)

/* A collective, and its start. */
#define METHODS(prefix, name)                                                                      \
  {#name, WITH_KEYWORDS(prefix##_##name), VECTORCALL, NULL}, {                                     \
    #name "_start", WITH_KEYWORDS(prefix##_##name##_start), VECTORCALL, NULL                       \
  }

static PyMethodDef methods[] = {
    METHODS(collective, allreduce),
    METHODS(group, allreduce_group),
    METHODS(group, reduce_scatter_group),
    METHODS(group, allgather_group),
    METHODS(group, broadcast_group),
    METHODS(collective, reduce),
    METHODS(collective, reduce_scatter),
    METHODS(parts, reduce_scatterv),
    METHODS(collective, scan),
    METHODS(collective, exscan),
    METHODS(collective, broadcast),
    METHODS(collective, allgather),
    METHODS(parts, allgatherv),
    METHODS(collective, gather),
    METHODS(parts, gatherv),
    METHODS(collective, scatter),
    METHODS(parts, scatterv),
    METHODS(collective, alltoall),
    METHODS(parts, alltoallv),
    {"barrier", collective_barrier, METH_NOARGS, NULL},
    {"barrier_start", collective_barrier_start, METH_NOARGS, NULL},
    {"send", WITH_KEYWORDS(message_send), VECTORCALL, NULL},
    {"recv", WITH_KEYWORDS(message_recv), VECTORCALL, NULL},
    {"empty", WITH_KEYWORDS(empty_call), KEYWORDS, NULL},
    {"split", WITH_KEYWORDS(comm_split), KEYWORDS, NULL},
    {"close", WITH_KEYWORDS(comm_close), KEYWORDS, NULL},
    {"abort", WITH_KEYWORDS(comm_abort), KEYWORDS, NULL},
    {"_agree", agree_call, METH_O, NULL}, /* sparkring._agree calls both */
    {"_allgather_strings", agree_strings, METH_O, NULL},
    {"_nccl_id", nccl_id, METH_O, NULL}, /* sparkring.frameworks._nccl makes a method of it */
    {"_device_open", device_open, METH_VARARGS, NULL}, /* sparkring._device calls both */
    {"_device_get", device_get, METH_NOARGS, NULL},
    {"_measure_clock", trace_measure_clock, METH_NOARGS,
     NULL}, /* sparkring._timeline calls these */
    {"_start_trace", trace_start, METH_VARARGS, NULL},
    {"_stop_trace", trace_stop, METH_NOARGS, NULL},
    {"port_reserve", port_reserve, METH_NOARGS, NULL},
    {"port_release", WITH_KEYWORDS(port_release), KEYWORDS, NULL},
    {"counters", WITH_KEYWORDS(comm_counters), KEYWORDS, NULL},
    {"link", WITH_KEYWORDS(comm_link), KEYWORDS, NULL},
    {"explain", WITH_KEYWORDS(explain_call), KEYWORDS, NULL},
    {"__enter__", comm_self, METH_NOARGS, NULL},
    {"__exit__", comm_exit, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(comm_object, weakrefs), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, comm_new},
    {Py_tp_dealloc, comm_dealloc},
    {Py_tp_repr, comm_repr},
    {Py_tp_getset, properties},
    {Py_tp_methods, methods},
    {Py_tp_members, members},
    {0, NULL},
};

PyType_Spec comm_type_spec = {
    .name = "sparkring.Communicator",
    .basicsize = sizeof(comm_object),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = slots,
};
