/* SPDX-License-Identifier: Apache-2.0
 *
 * The collectives with equal lengths on all ranks, as methods of the communicator.
 */
#ifndef SPARKRING_COLLECTIVE_H
#define SPARKRING_COLLECTIVE_H

#include "call.h"

CALL_DECLARE(collective, allreduce)
CALL_DECLARE(collective, reduce)
CALL_DECLARE(collective, reduce_scatter)
CALL_DECLARE(collective, scan)
CALL_DECLARE(collective, exscan)
CALL_DECLARE(collective, broadcast)
CALL_DECLARE(collective, allgather)
CALL_DECLARE(collective, gather)
CALL_DECLARE(collective, scatter)
CALL_DECLARE(collective, alltoall)
PyObject *collective_barrier(PyObject *self, PyObject *kind); /* METH_O */

/* Shared with allreduce_group. 0, or -1 with an exception. */
int collective_parse_op(module_state *state, const char *name, ring_op *op);

#endif
