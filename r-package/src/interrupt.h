/* SPDX-License-Identifier: Apache-2.0
 *
 * What the core calls while it waits: whether to go on, and that it has waited long. R answers with
 * a jump: to Ctrl-C, to a time limit, out of a user's handler. It must not pass through the core,
 * whose buffers and sockets would be left as they happened to be. So a hook lets R jump no further
 * than itself and the core is asked to end the call; when it has cleaned up and returned, the jump
 * goes on to where R wanted it, such as tryCatch(interrupt = ).
 *
 * The core calls hooks on the thread that waits, which is R's only one: at most one jump is held
 * back at a time, whichever communicators there are.
 */
#ifndef SPARKRING_INTERRUPT_H
#define SPARKRING_INTERRUPT_H

#include <stdbool.h>

/* When the library is loaded. */
void interrupt_init(void);

/* The core's hooks; the first arguments are NULL. The first is non-zero when R wants to jump.
 * The second says it with ring_stall() of R/base-error.R. */
int interrupt_hook(void *unused);
void interrupt_log(void *unused, const char *message);

/* In finalisers, where no code of R's may run, the log is printed and nothing else. */
void interrupt_set_quiet(bool quiet);

/* After a call of the core: lets a jump that was held back go on. Returns where there was none. */
void interrupt_continue(void);

#endif
