/* SPDX-License-Identifier: Apache-2.0
 *
 * The type sparkring._core.CommunicatorBase: what the class sparkring.Communicator needs of the
 * core. The class has signatures, defaults and docstrings, and calls the methods here, which take
 * all arguments by position. An object has one reference, to its device, which leads nowhere, so it
 * needs no cycle collector. Only sparkring.init makes communicators.
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
#include "object.h"
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

static PyObject *comm_counters(PyObject *self, PyObject *peer) {
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

static PyObject *comm_link(PyObject *self, PyObject *given) {
  int peer;
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

OBJECT_REFUSES(comm_new, "a Communicator is made by sparkring.init()")

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
  if (self->weakrefs) PyObject_ClearWeakRefs(object);
  if (self->comm && !self->closed && ring_comm_usable(self->comm)) warn_unclosed(self);
  trace_end(self);
  Py_XDECREF((PyObject *)self->device);
  ring_comm_free(self->comm);
  object_free(object);
}

/* ---- The type ----------------------------------------------------------------------------- */

static PyGetSetDef properties[] = {
    {"_rank", get_rank, NULL, NULL, NULL},
    {"_size", get_size, NULL, NULL, NULL},
    {"_local_rank", get_local_rank, NULL, NULL, NULL},
    {"_local_size", get_local_size, NULL, NULL, NULL},
    {"_hosts", get_hosts, NULL, NULL, NULL},
    {"_epoch", get_epoch, NULL, NULL, NULL},
    {"_authenticated", get_authenticated, NULL, NULL, NULL},
    {"_encrypted", get_encrypted, NULL, NULL, NULL},
    {"_closed", get_closed, NULL, NULL, NULL},
    {"_usable", get_usable, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

#define VECTORCALL(function) ((PyCFunction)(void (*)(void))(function)), METH_FASTCALL, NULL

static PyMethodDef methods[] = {
    {"_allreduce", VECTORCALL(collective_allreduce)},
    {"_reduce", VECTORCALL(collective_reduce)},
    {"_reduce_scatter", VECTORCALL(collective_reduce_scatter)},
    {"_scan", VECTORCALL(collective_scan)},
    {"_exscan", VECTORCALL(collective_exscan)},
    {"_broadcast", VECTORCALL(collective_broadcast)},
    {"_allgather", VECTORCALL(collective_allgather)},
    {"_gather", VECTORCALL(collective_gather)},
    {"_scatter", VECTORCALL(collective_scatter)},
    {"_alltoall", VECTORCALL(collective_alltoall)},
    {"_allreduce_group", VECTORCALL(group_allreduce_group)},
    {"_reduce_scatter_group", VECTORCALL(group_reduce_scatter_group)},
    {"_allgather_group", VECTORCALL(group_allgather_group)},
    {"_broadcast_group", VECTORCALL(group_broadcast_group)},
    {"_reduce_scatterv", VECTORCALL(parts_reduce_scatterv)},
    {"_allgatherv", VECTORCALL(parts_allgatherv)},
    {"_gatherv", VECTORCALL(parts_gatherv)},
    {"_scatterv", VECTORCALL(parts_scatterv)},
    {"_alltoallv", VECTORCALL(parts_alltoallv)},
    {"_barrier", collective_barrier, METH_O, NULL},
    {"_send", VECTORCALL(message_send)},
    {"_recv", VECTORCALL(message_recv)},
    {"_empty", empty_call, METH_VARARGS, NULL},
    {"_split", comm_split, METH_VARARGS, NULL},
    {"_shrink", comm_shrink, METH_O, NULL},
    {"_close", comm_close, METH_O, NULL},
    {"_abort", comm_abort, METH_VARARGS, NULL},
    {"_agree", agree_call, METH_O, NULL}, /* sparkring._agree calls both */
    {"_allgather_strings", agree_strings, METH_O, NULL},
    {"_nccl_id", nccl_id, METH_O, NULL},
    {"_device_open", device_open, METH_VARARGS, NULL}, /* sparkring._device calls both */
    {"_device_get", device_get, METH_NOARGS, NULL},
    {"_device_exchange", device_exchange, METH_VARARGS, NULL}, /* sparkring.torch calls this */
    {"_measure_clock", trace_measure_clock, METH_NOARGS, NULL},
    {"_start_trace", trace_start, METH_VARARGS, NULL},
    {"_stop_trace", trace_stop, METH_NOARGS, NULL},
    {"_port_reserve", port_reserve, METH_NOARGS, NULL},
    {"_port_release", port_release, METH_O, NULL},
    {"_counters", comm_counters, METH_O, NULL},
    {"_link", comm_link, METH_O, NULL},
    {"_explain", explain_call, METH_VARARGS, NULL},
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
    .name = "sparkring._core.CommunicatorBase",
    .basicsize = sizeof(comm_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = slots,
};
