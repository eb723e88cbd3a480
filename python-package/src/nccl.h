/* SPDX-License-Identifier: Apache-2.0
 *
 * What sparkring.frameworks._nccl makes its method of.
 */
#ifndef SPARKRING_NCCL_H
#define SPARKRING_NCCL_H

#include "comm.h"

PyObject *nccl_id(PyObject *self, PyObject *libraries);

#endif
