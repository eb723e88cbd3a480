/* SPDX-License-Identifier: Apache-2.0
 *
 * The launcher of a job: the process that has forked the supervisor, and waits for it. If one of the two dies, the
 * other one ends what the job has started.
 */
#ifndef RING_LAUNCH_LAUNCHER_H
#define RING_LAUNCH_LAUNCHER_H

#include <stdbool.h>
#include <sys/types.h>

#include "launch/supervisor.h"

typedef struct ring_launcher {
  pid_t supervisor;
  int lifeline; /* a socket, which the caller closes; its end, or shutdown(SHUT_WR), makes the supervisor kill all */
} ring_launcher;

/* Forks the supervisor. A signal to its process is forwarded to all ranks. Returns 0 or an errno. */
int ring_launcher_start(const ring_job *job, ring_launcher *launcher);

/* Whether the job has ended. Reaps the supervisor. *code is the exit code of the job, or that of SIGKILL if the
 * supervisor was killed. */
bool ring_launcher_ended(const ring_launcher *launcher, int *code);

/* Runs a job in a process that has no other task: forwards the signals of this process to the ranks, and kills what a
 * killed supervisor has left. Children from before the call stay. Returns the exit code of the job. The signals stay
 * blocked, so a late one does not change how this process ends. */
int ring_launcher_run(const ring_job *job);

#endif
