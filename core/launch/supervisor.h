/* SPDX-License-Identifier: Apache-2.0
 *
 * The supervisor of a job: a process that starts the ranks, copies their output line by line with the rank before each
 * line, and ends them with all that they have started.
 */
#ifndef RING_LAUNCH_SUPERVISOR_H
#define RING_LAUNCH_SUPERVISOR_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

enum { RING_SUPERVISOR_LIFELINE = 3 }; /* the descriptor, from ring_supervise() on */

typedef struct ring_job {
  char *const *command; /* of every rank, ends with NULL */
  char *const
      *variables; /* of every rank: "NAME=value" sets, "NAME" removes; ends with NULL, or NULL */
  int size;
  bool input;     /* whether rank 0 has the standard input */
  int outputs[2]; /* descriptors for what ranks print on 1 and 2 */
  double grace;   /* seconds from the request to end until ranks are killed; 0: 10 */
  double
      linger; /* seconds for what ranks leave behind, and for a reader that does not read; 0: 1 */
} ring_job;

typedef struct ring_supervision {
  const ring_job *job;
  pid_t launcher; /* the parent of this process */
  int lifeline;   /* a socket; its end means that the launcher has ended, or ends the job */
  sigset_t mask;  /* of signals, for the ranks */
} ring_supervision;

/* Runs the supervisor in a forked child, in a session of its own, with SIGCHLD and the signals of
 * ring_supervisor_signals() blocked. Uses the descriptors 0 to 3 and closes all others. Returns the exit code of the
 * job: 0, or that of the first rank that failed (128 + number for a signal); 126 or 127 for a command that cannot run. */
int ring_supervise(const ring_supervision *supervision);

/* The signals that are forwarded to ranks, except those that this process ignores. */
void ring_supervisor_signals(sigset_t *set);

#endif
