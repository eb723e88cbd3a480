/* SPDX-License-Identifier: Apache-2.0
 *
 * The interpreter lock around a call of the core. Every call that may wait runs between gil_release
 * and gil_take; what the core calls back (the hooks, the exchange) takes the lock again
 * for as long as it runs Python code. The saved thread state lives in a thread-local variable: the
 * core calls back on the calling thread, and other threads may be inside other communicators.
 */
#ifndef SPARKRING_GIL_H
#define SPARKRING_GIL_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>

void gil_release(void);
void gil_take(void);

/* When the module is loaded, and, as the function _core.end, when the interpreter begins to end:
 * from then on calls of the core on other threads do, too. Waits for them, but not long. */
void gil_init(void);
PyObject *gil_end(PyObject *module, PyObject *unused);
bool gil_is_ending(void);

/* The interrupt hook: lets Python run its signal handlers. Non-zero when one of them raised (as
 * SIGINT's does), when an exception is waiting already or was sent to this thread, and when the flag
 * that is heeded is set. */
int gil_interrupt(void *unused);

/* The log hook: a warning of the logger "sparkring". Also called with the lock held, where the
 * core is asked about a request. */
void gil_log(void *unused, const char *message);

/* From now on calls of the core on this thread end when another thread, with the lock, sets the
 * flag. NULL: no flag. */
void gil_heed(const bool *flag);

/* Whether this thread runs Python code inside one of those hooks, and so inside a call of the
 * core. */
bool gil_in_hook(void);

/* Whether that call heeds this flag. */
bool gil_in_hook_of(const bool *flag);

#endif
