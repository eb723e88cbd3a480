/* SPDX-License-Identifier: Apache-2.0
 *
 * The interpreter lock around a call of the core. Every call that may wait runs between gil_release
 * and gil_take. The callbacks of the core (the hooks, the exchange) acquire the lock while they run
 * Python code. The saved thread state lives in a thread-local variable: the core calls back on the
 * calling thread, and other threads may be inside other communicators.
 */
#ifndef SPARKRING_GIL_H
#define SPARKRING_GIL_H

#include <stdbool.h>

#include "python_api.h"

void gil_release(void);
void gil_take(void);

/* gil_init is called when the module is loaded. gil_end is the function _core.end, which is called
 * when the interpreter begins to end. It ends the calls of the core on other threads, and waits for
 * the calls for a short time. */
void gil_init(void);
PyObject *gil_end(PyObject *module, PyObject *unused);
bool gil_is_ending(void);

/* The interrupt hook: lets Python run its signal handlers. Non-zero when a handler raised (as that
 * of SIGINT does), and when an exception is pending already or was sent to this thread. */
int gil_interrupt(void *unused);

/* The log hook: a warning of the logger "sparkring". Also called with the lock held, by the test of
 * a request. */
void gil_log(void *unused, const char *message);

/* Whether this thread runs Python code inside a hook, and so inside a call of the core. */
bool gil_in_hook(void);

#endif
