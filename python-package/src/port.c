/* SPDX-License-Identifier: Apache-2.0
 *
 * Both methods return at once and keep the interpreter lock, so that two threads cannot run them. A
 * method raises BUSY while another thread is in a call of the core, as the core requires.
 */
#include "port.h"

#include "error.h"

static PyObject *port_busy(comm_object *self) {
  return error_raise(comm_state(self), RING_BUSY, NULL);
}

PyObject *port_reserve(PyObject *object, PyObject *unused) {
  (void)unused;
  comm_object *self = (comm_object *)object;
  int port;
  if (self->running > 0) return port_busy(self);
  ring_status status = ring_port_reserve(self->comm, &port);
  if (status == RING_OK) return PyLong_FromLong(port);
  return error_raise(comm_state(self), status, ring_comm_error(self->comm));
}

PyObject *port_release(PyObject *object, PyObject *given) {
  comm_object *self = (comm_object *)object;
  int port = 0; /* in the core: all ports */
  if (given != Py_None) {
    long number = PyLong_AsLong(given);
    if (number == -1 && PyErr_Occurred()) return NULL;
    if (number < 1 || number > 65535)
      return error_invalid(comm_state(self), "port is %ld: ports go from 1 to 65535", number);
    port = (int)number;
  }
  if (self->running > 0) return port_busy(self);
  ring_status status = ring_port_release(self->comm, port);
  if (status != RING_OK) return error_raise(comm_state(self), status, ring_comm_error(self->comm));
  Py_RETURN_NONE;
}
