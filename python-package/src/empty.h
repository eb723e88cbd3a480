/* SPDX-License-Identifier: Apache-2.0
 *
 * The method empty of the communicator: a new array in shared memory, whatever its size.
 */
#ifndef SPARKRING_EMPTY_H
#define SPARKRING_EMPTY_H

#include "python_api.h"

PyObject *empty_call(PyObject *self, PyObject *args);

#endif
