/* SPDX-License-Identifier: Apache-2.0
 *
 * Exceptions: one class for each status, from RING_STATUS_MAP, all derived from RingError.
 */
#ifndef SPARKRING_ERROR_H
#define SPARKRING_ERROR_H

#include "state.h"

/* Makes the classes and adds them to the module. 0, or -1 with an exception. */
int error_add_classes(PyObject *module, module_state *state);

/* Raises the status of a core call, with the text of error (which may be NULL or of another call).
 * Where Python code that the core called has raised already, its exception stays, because it is the
 * cause. Returns NULL. */
PyObject *error_raise(module_state *state, ring_status status, const ring_error *error);

/* Raises InvalidError for a value that does not reach the core. The format is that of
 * PyUnicode_FromFormat. Returns NULL. */
PyObject *error_invalid(module_state *state, const char *format, ...);

#endif
