/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks that stop in the middle of a call, while the others find out: each is a process of its own, which
 * is killed when they have.
 */
#ifndef RING_STOPPED_H
#define RING_STOPPED_H

#include <stdbool.h>
#include <sys/types.h>

#include "sparkring.h"

/* How far a test has come, in memory of all ranks. */
typedef struct stopped_state {
  int stopped; /* 1 when the rank has */
  int failed;  /* so many of the others have */
} stopped_state;

/* Forks a process that ends with this one even where it has stopped. */
pid_t fork_stopped(void);

/* Waits until a process has stopped, and kills it when `others` ranks have failed. */
void watch_stopped(pid_t process, int others, stopped_state *state);

/* Is a rank, in a process that opens a communicator and calls `stop`, in which it stops; to the end. */
void be_stopped(const ring_options *options, void (*stop)(ring_comm *), stopped_state *state);

/* The process of such a rank stops in the next call that waits for long. Of another one, too, if it has
 * this hook as options.interrupt. */
void stop_in_the_next_call(void);
int stop_hook(void *unused);

#endif
