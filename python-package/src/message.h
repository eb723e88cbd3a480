/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages between two ranks, as methods of the communicator.
 */
#ifndef SPARKRING_MESSAGE_H
#define SPARKRING_MESSAGE_H

#include "comm.h"

PyObject *message_send(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *message_recv(PyObject *self, PyObject *args, PyObject *kwargs);

#endif
