/* SPDX-License-Identifier: Apache-2.0
 *
 * Exceptions: one class a status, made from RING_STATUS_MAP, all of them below RingError.
 */
#ifndef SPARKRING_ERROR_H
#define SPARKRING_ERROR_H

#include "state.h"

/* Makes the classes and adds them to the module. 0, or -1 with an exception. */
int error_add_classes(PyObject *module, module_state *state);

/* Raises what a core call returned; error (which may be NULL or about something else) explains.
 * Where Python code that the core called has raised already, that exception stands, because it is
 * the cause. Returns NULL. */
PyObject *error_raise(module_state *state, ring_status status, const ring_error *error);

/* Raises InvalidError for what the core never sees. The format is PyUnicode_FromFormat's.
 * Returns NULL. */
PyObject *error_invalid(module_state *state, const char *format, ...);

#endif
