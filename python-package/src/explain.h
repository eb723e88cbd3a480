/* SPDX-License-Identifier: Apache-2.0
 *
 * Explains which algorithm a collective would use: a tuple of the attributes of
 * sparkring._explanation.Explanation.
 */
#ifndef SPARKRING_EXPLAIN_H
#define SPARKRING_EXPLAIN_H

#include "comm.h"

PyObject *explain_call(PyObject *object, PyObject *args);

#endif
