/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions of the module for the rank at fault (sparkring/spark/_rank_result.py).
 */
#ifndef SPARKRING_BLAME_H
#define SPARKRING_BLAME_H

#include "state.h"

/* blame_weight(statuses): the weight of an error whose chain has these statuses. */
PyObject *blame_weight(PyObject *module, PyObject *statuses);

/* blame_first(failures): the index of the one at fault among tuples of weight, time and rank. */
PyObject *blame_first(PyObject *module, PyObject *failures);

#endif
