/* SPDX-License-Identifier: Apache-2.0
 *
 * The interpreter lock around a call of the core. Every call that may wait runs between gil_release
 * and gil_take; what the core calls back (the interrupt hook, the exchange) takes the lock again for
 * as long as it runs Python code. The saved thread state lives in a thread-local variable: the core
 * calls back on the calling thread, and other threads may be inside other communicators.
 */
#ifndef SPARKRING_GIL_H
#define SPARKRING_GIL_H

#include <stdbool.h>

void gil_release(void);
void gil_take(void);

/* The interrupt hook: lets Python run its signal handlers. Non-zero when one of them raised (as
 * SIGINT's does), or when an exception is waiting already. */
int gil_interrupt(void *unused);

/* Whether this thread runs Python code inside that hook, and so inside a call of the core. */
bool gil_in_hook(void);

#endif
