/* SPDX-License-Identifier: Apache-2.0
 *
 * The collectives in which the ranks' parts differ in length, as methods of the communicator.
 */
#ifndef SPARKRING_PARTS_H
#define SPARKRING_PARTS_H

#include "comm.h"

PyObject *parts_allgatherv(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *parts_gatherv(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *parts_scatterv(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *parts_alltoallv(PyObject *self, PyObject *args, PyObject *kwargs);

#endif
