/* SPDX-License-Identifier: Apache-2.0
 *
 * A function of the module for files on disks (sparkring/spark/_checkpoint.py).
 */
#ifndef SPARKRING_DURABLE_FILE_H
#define SPARKRING_DURABLE_FILE_H

#include "state.h"

/* file_write(directory, name, data, trailer): writes a file of two parts, which gets its name when it is on the
 * disk. OSError. */
PyObject *durable_file_write(PyObject *module, PyObject *args);

#endif
