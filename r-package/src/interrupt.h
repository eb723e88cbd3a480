/* SPDX-License-Identifier: Apache-2.0
 *
 * Hooks that the core calls while it waits: whether to go on, and the report of a long wait. R
 * answers with a jump: at Ctrl-C, at a time limit, out of a user's handler. The jump must not pass
 * through the core, which would leave its buffers and sockets in any state. So a hook stops the jump
 * and asks the core to end the call. When the core has cleaned up and returned, the jump continues to
 * its target, such as tryCatch(interrupt = ).
 *
 * The core calls hooks on the thread that waits, which is R's only one. So at most one jump is held
 * back at a time, for all communicators.
 */
#ifndef SPARKRING_INTERRUPT_H
#define SPARKRING_INTERRUPT_H

#include <stdbool.h>

/* Called when the library is loaded. */
void interrupt_init(void);

/* The core's hooks; the first arguments are NULL. The first returns non-zero when R is to jump.
 * The second prints a report by ring_stall() of R/base-error.R. */
int interrupt_hook(void *unused);
void interrupt_log(void *unused, const char *message);

/* Called by finalisers, where no code of R may run: the report is printed, and R gets no chance to
 * jump. */
void interrupt_set_quiet(bool quiet);

/* Called after a call of the core: continues a jump that was held back. Returns where there was
 * none. */
void interrupt_continue(void);

#endif
