/* SPDX-License-Identifier: Apache-2.0
 *
 * The supervisor of ring_launch(): a process that starts the ranks of a job, copies their output line
 * by line with the rank before each line, and ends them. It uses nothing of R. Python's supervisor
 * does the same.
 */
#ifndef SPARKRING_SUPERVISOR_H
#define SPARKRING_SUPERVISOR_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

typedef struct supervisor_job {
  char *const *command; /* of every rank, ends with NULL */
  int size;
  const char *token; /* for a file that SPARKRING_TOKEN_FILE names while the job runs */
  bool input;        /* whether rank 0 has the standard input */
  int outputs[2];    /* descriptors for what ranks print on 1 and 2 */
  int lifeline;      /* a socket; its end means that the launcher has ended */
  sigset_t mask;     /* of signals, for the ranks */
} supervisor_job;

/* Runs the supervisor in a forked child, with the signals of supervisor_signals() blocked. Reports
 * the exit code of the job as an int on the lifeline: 0, or that of the first rank that failed
 * (128 + number for a signal). */
_Noreturn void supervise(const supervisor_job *job);

/* The signals that are passed on to ranks, except those that this process ignores. */
void supervisor_signals(sigset_t *set);

#endif
