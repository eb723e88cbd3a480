/* SPDX-License-Identifier: Apache-2.0
 *
 * Starts a program as a child of this process: in a process group of its own, and, on Linux, killed when this process
 * ends.
 */
#ifndef RING_LAUNCH_PROCESS_START_H
#define RING_LAUNCH_PROCESS_START_H

#include <signal.h>
#include <sys/types.h>

typedef struct ring_process_start {
  char *const *command;          /* ends with NULL */
  void (*prepare)(const void *); /* called in the child: opens descriptors, and sets variables */
  const void *data;              /* of prepare() */
  int descriptors;               /* number that the program inherits, from 0 on */
  sigset_t mask;                 /* of signals, for the program */
} ring_process_start;

/* Returns 0 or an errno. *process is the child, also when it could not become the program; 0: there is none. */
int ring_process_start_run(const ring_process_start *start, pid_t *process);

/* Changes the environment of this process: "NAME=value" sets a variable, and "NAME" removes it. The strings stay in
 * use. NULL ends the list, and may be the list. 0 or an errno. */
int ring_process_start_set(char *const *variables);

/* Gives the descriptors `given` the numbers from 0 on, and closes all others. Changes the array. */
void ring_process_start_arrange(int *given, int count);

#endif
