/* SPDX-License-Identifier: Apache-2.0
 *
 * Starts a program as a child of this process: in a process group of its own, and, on Linux, killed
 * when this process ends.
 */
#ifndef SPARKRING_PROCESS_START_H
#define SPARKRING_PROCESS_START_H

#include <signal.h>
#include <sys/types.h>

typedef struct process_start {
  char *const *command;          /* ends with NULL */
  void (*prepare)(const void *); /* called in the child: opens descriptors, and sets variables */
  const void *data;              /* of prepare() */
  int descriptors;               /* number that the program inherits, from 0 on */
  sigset_t mask;                 /* of signals, for the program */
} process_start;

/* Returns 0 or an errno. *process is the child, also when it could not become the program; 0: there
 * is none. */
int process_start_run(const process_start *start, pid_t *process);

/* Closes all descriptors from `first` on, except `kept`. */
void process_start_close_from(int first, int kept);

#endif
