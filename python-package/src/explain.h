/* SPDX-License-Identifier: Apache-2.0
 *
 * Explains which algorithm a collective would use, as a sparkring._explanation.Explanation.
 */
#ifndef SPARKRING_EXPLAIN_H
#define SPARKRING_EXPLAIN_H

#include "comm.h"

PyObject *explain_call(PyObject *object, PyObject *args, PyObject *kwargs);

#endif
