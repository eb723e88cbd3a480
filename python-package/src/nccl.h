/* SPDX-License-Identifier: Apache-2.0
 *
 * The unique id of NCCL, for the method of sparkring.frameworks._nccl.
 */
#ifndef SPARKRING_NCCL_H
#define SPARKRING_NCCL_H

#include "comm.h"

PyObject *nccl_id(PyObject *self, PyObject *libraries);

#endif
