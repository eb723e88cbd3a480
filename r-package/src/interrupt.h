/* SPDX-License-Identifier: Apache-2.0
 *
 * Ctrl-C and time limits while the core waits. R answers them with a jump, which must not pass
 * through the core: it would leave its buffers and sockets as they happened to be. So the hook lets
 * R jump no further than itself and asks the core to end the call; when the core has cleaned up and
 * returned, the jump goes on to where R wanted it, such as tryCatch(interrupt = ).
 *
 * The core calls the hook on the thread that waits, which is R's only one: at most one jump is held
 * back at a time, whichever communicators there are.
 */
#ifndef SPARKRING_INTERRUPT_H
#define SPARKRING_INTERRUPT_H

/* When the library is loaded. */
void interrupt_init(void);

/* The core's hook; `unused` is NULL. Non-zero when R wants to jump. */
int interrupt_hook(void *unused);

/* Lets a jump that the hook held back go on. Returns where there was none. */
void interrupt_continue(void);

#endif
