/* SPDX-License-Identifier: Apache-2.0
 *
 * Every method returns at once and keeps the interpreter lock, so that two threads cannot use one
 * connection.
 */
#include "tls.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "transport/link.h"

#define TLS_READ 1 /* as in Python's selectors */
#define TLS_WRITE 2

typedef struct tls_object {
  PyObject_HEAD ring_link *link; /* NULL once it is closed */
} tls_object;

/* ---- Opening and closing ------------------------------------------------------------------ */

static PyObject *raise_errno(int code) {
  errno = code;
  return PyErr_SetFromErrno(PyExc_OSError);
}

static ring_link *tls_open(int fd, bool connects, const ring_secret *key) {
  int flags = fcntl(fd, F_GETFL);
  ring_link *under = NULL, *link = NULL;
  if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0) return NULL;
  int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (own < 0) return NULL;
  under = ring_link_tcp(own);
  if (under != NULL) link = ring_link_tls(under, connects, key);
  if (link != NULL) return link;
  if (under != NULL)
    under->ops->close(under);
  else
    close(own);
  errno = ENOMEM;
  return NULL;
}

static PyObject *tls_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  static char *names[] = {"fd", "connects", "key", NULL};
  int fd, connects;
  Py_buffer given;
  ring_secret key;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "ipy*:Tls", names, &fd, &connects, &given))
    return NULL;
  bool fits = given.len == sizeof key;
  if (fits) memcpy(&key, given.buf, sizeof key);
  PyBuffer_Release(&given);
  if (!fits) {
    PyErr_Format(PyExc_ValueError, "key must have %d bytes", (int)sizeof key);
    return NULL;
  }
  tls_object *made = (tls_object *)PyType_GenericAlloc(type, 0);
  if (made == NULL) return NULL;
  made->link = tls_open(fd, connects != 0, &key);
  int code = errno;
  ring_secret_wipe(&key, sizeof key);
  if (made->link != NULL) return (PyObject *)made;
  Py_DECREF((PyObject *)made);
  return raise_errno(code);
}

static PyObject *tls_close(PyObject *object, PyObject *unused) {
  (void)unused;
  tls_object *self = (tls_object *)object;
  ring_link *link = self->link;
  self->link = NULL;
  if (link != NULL) link->ops->finish(link);
  if (link != NULL) link->ops->close(link);
  Py_RETURN_NONE;
}

static void tls_dealloc(PyObject *object) {
  PyTypeObject *type = Py_TYPE(object);
  tls_object *self = (tls_object *)object;
  if (self->link != NULL) self->link->ops->close(self->link);
  freefunc free_object = (freefunc)PyType_GetSlot(type, Py_tp_free);
  free_object(object);
  Py_DECREF(type);
}

/* ---- Moving ------------------------------------------------------------------------------- */

/* NULL with an exception. */
static ring_link *tls_link_of(PyObject *object) {
  ring_link *link = ((tls_object *)object)->link;
  if (link == NULL) raise_errno(EBADF);
  return link;
}

static PyObject *tls_send(PyObject *object, PyObject *bytes) {
  ring_link *link = tls_link_of(object);
  Py_buffer given;
  if (link == NULL || PyObject_GetBuffer(bytes, &given, PyBUF_SIMPLE) < 0) return NULL;
  struct iovec piece = {given.buf, (size_t)given.len};
  ssize_t moved = given.len > 0 ? link->ops->send(link, &piece, 1) : 0;
  bool blocked = given.len > 0 && moved == 0;
  PyBuffer_Release(&given);
  if (blocked) return raise_errno(EAGAIN);
  return moved < 0 ? raise_errno((int)-moved) : PyLong_FromSsize_t(moved);
}

static PyObject *tls_recv(PyObject *object, PyObject *most) {
  ring_link *link = tls_link_of(object);
  Py_ssize_t length = PyNumber_AsSsize_t(most, PyExc_OverflowError);
  if (link == NULL || (length == -1 && PyErr_Occurred())) return NULL;
  if (length < 1) return PyErr_Format(PyExc_ValueError, "recv() takes at least 1 byte");
  PyObject *buffer = PyByteArray_FromStringAndSize(NULL, length);
  if (buffer == NULL) return NULL;
  struct iovec piece = {PyByteArray_AsString(buffer), (size_t)length};
  ssize_t moved = link->ops->receive(link, &piece, 1);
  PyObject *result = NULL;
  if (moved > 0 || moved == -EPIPE)
    result = PyBytes_FromStringAndSize(PyByteArray_AsString(buffer), moved > 0 ? moved : 0);
  else
    raise_errno(moved == 0 ? EAGAIN : (int)-moved);
  Py_DECREF(buffer);
  return result;
}

static PyObject *tls_recv_into(PyObject *object, PyObject *buffer) {
  ring_link *link = tls_link_of(object);
  Py_buffer given;
  if (link == NULL || PyObject_GetBuffer(buffer, &given, PyBUF_WRITABLE) < 0) return NULL;
  struct iovec piece = {given.buf, (size_t)given.len};
  ssize_t moved = link->ops->receive(link, &piece, 1);
  PyBuffer_Release(&given);
  if (moved == 0 && piece.iov_len > 0) return raise_errno(EAGAIN);
  if (moved < 0 && moved != -EPIPE) return raise_errno((int)-moved);
  return PyLong_FromSsize_t(moved > 0 ? moved : 0);
}

static PyObject *tls_wants(PyObject *object, PyObject *events) {
  ring_link *link = tls_link_of(object);
  long given = PyLong_AsLong(events);
  if (link == NULL || (given == -1 && PyErr_Occurred())) return NULL;
  short asked = (short)((given & TLS_READ ? POLLIN : 0) | (given & TLS_WRITE ? POLLOUT : 0));
  short armed = link->ops->arm(link, asked);
  return PyLong_FromLong((armed & POLLIN ? TLS_READ : 0) | (armed & POLLOUT ? TLS_WRITE : 0));
}

/* ---- The type ----------------------------------------------------------------------------- */

static PyMethodDef methods[] = {
    {"send", tls_send, METH_O,
     "send($self, data, /)\n--\n\nSend some of the bytes, and return their number. Raise"
     " BlockingIOError when none can be sent now, for example during the TLS handshake."},
    {"recv", tls_recv, METH_O,
     "recv($self, most, /)\n--\n\nReceive up to `most` bytes; none at the end. Raise"
     " BlockingIOError when there are none now."},
    {"recv_into", tls_recv_into, METH_O,
     "recv_into($self, buffer, /)\n--\n\nReceive into a buffer, and return the number of bytes;"
     " 0 at the end. Raise BlockingIOError when there are none now."},
    {"wants", tls_wants, METH_O,
     "wants($self, events, /)\n--\n\nReturn the events of the socket to poll for until one of"
     " `events` is possible. Both are bits of selectors.EVENT_READ and EVENT_WRITE."},
    {"close", tls_close, METH_NOARGS,
     "close($self, /)\n--\n\nSend the end of the data, and close."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, "Tls(fd, connects, key)\n--\n\nOne end of an encrypted connection. It has a"
                " descriptor of its own for the socket."},
    {Py_tp_new, tls_new},
    {Py_tp_dealloc, tls_dealloc},
    {Py_tp_methods, methods},
    {0, NULL},
};

PyType_Spec tls_type_spec = {
    .name = "sparkring._core.Tls",
    .basicsize = sizeof(tls_object),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = slots,
};
