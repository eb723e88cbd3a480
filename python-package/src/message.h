/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages between two ranks in the order of collectives, as methods of the communicator. They have no
 * starts: those of sparkring._messages are outside that order. METH_FASTCALL.
 */
#ifndef SPARKRING_MESSAGE_H
#define SPARKRING_MESSAGE_H

#include "call.h"

PyObject *message_send(PyObject *self, PyObject *const *values, Py_ssize_t count);
PyObject *message_recv(PyObject *self, PyObject *const *values, Py_ssize_t count);

#endif
