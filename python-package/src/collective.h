/* SPDX-License-Identifier: Apache-2.0
 *
 * The collectives in which every rank has equally much, as methods of the communicator.
 */
#ifndef SPARKRING_COLLECTIVE_H
#define SPARKRING_COLLECTIVE_H

#include "comm.h"

PyObject *collective_allreduce(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *collective_reduce(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *collective_reduce_scatter(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *collective_broadcast(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *collective_allgather(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *collective_gather(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *collective_scatter(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *collective_alltoall(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *collective_barrier(PyObject *self, PyObject *unused);

#endif
