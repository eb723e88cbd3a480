/* SPDX-License-Identifier: Apache-2.0
 *
 * The methods that reserve and release ports for servers of other programs.
 */
#ifndef SPARKRING_PORT_H
#define SPARKRING_PORT_H

#include "comm.h"

PyObject *port_reserve(PyObject *self, PyObject *unused);
PyObject *port_release(PyObject *self, PyObject *port);

#endif
