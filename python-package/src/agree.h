/* SPDX-License-Identifier: Apache-2.0
 *
 * Agreement of all ranks on a step, and strings of all ranks (sparkring/_agree.py).
 */
#ifndef SPARKRING_AGREE_H
#define SPARKRING_AGREE_H

#include "comm.h"

/* _agree(failure): None where all ranks have succeeded, else the first rank that has failed, and why, as
 * a string for the other ranks. `failure` is this rank's error as a str, or None. */
PyObject *agree_call(PyObject *self, PyObject *failure);

/* _allgather_strings(strings): the lists of all ranks, in rank order. */
PyObject *agree_strings(PyObject *self, PyObject *strings);

#endif
