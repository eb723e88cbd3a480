/* SPDX-License-Identifier: Apache-2.0
 *
 * Asking how a collective would be done. The answer is a sparkring._explanation.Explanation.
 */
#ifndef SPARKRING_EXPLAIN_H
#define SPARKRING_EXPLAIN_H

#include "comm.h"

PyObject *explain_call(PyObject *object, PyObject *args, PyObject *kwargs);

#endif
