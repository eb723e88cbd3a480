/* SPDX-License-Identifier: Apache-2.0
 *
 * Ctrl-C and time limits while the core waits. R answers them with a jump, which must not pass
 * through the core: it would leave its buffers and sockets as they happened to be. So the hook lets
 * R jump no further than itself and asks the core to end the call; when the core has cleaned up and
 * returned, the jump goes on to where R wanted it, such as tryCatch(interrupt = ).
 */
#ifndef SPARKRING_INTERRUPT_H
#define SPARKRING_INTERRUPT_H

#include <Rinternals.h>
#include <stdbool.h>

typedef struct interrupt {
  SEXP unwind; /* from R_MakeUnwindCont; whoever has the struct keeps it from collection */
  bool pending;
} interrupt;

/* The core's hook: `arg` is an interrupt. Non-zero when R wants to jump. */
int interrupt_hook(void *arg);

/* Lets a jump that the hook held back go on. Returns where there was none. */
void interrupt_continue(interrupt *held);

#endif
