/* SPDX-License-Identifier: Apache-2.0
 *
 * ring_launch(): from R, the process that starts the ranks of a job on this machine (supervisor.h).
 */
#ifndef SPARKRING_LAUNCHER_H
#define SPARKRING_LAUNCHER_H

#include <Rinternals.h>

/* Starts a job: the command, "NAME=value" for the environment, the number of ranks, their token,
 * whether rank 0 has the standard input, and whether they print where this process does. Gives the
 * supervisor's process, a descriptor that keeps the job alive, and those to read their output and
 * their errors from, or NA. */
SEXP launcher_start(SEXP command, SEXP environment, SEXP size, SEXP token, SEXP input, SEXP direct);

/* The exit code of the job, or NULL while it runs. */
SEXP launcher_code(SEXP process, SEXP lifeline);

/* Waits for the job, passes signals on to it, and leaves no process behind. The exit code. */
SEXP launcher_wait(SEXP process, SEXP lifeline);

/* Does not wait for the job any more: the supervisor kills the ranks. */
SEXP launcher_hang_up(SEXP lifeline);

/* Sends a signal to the supervisor, which passes it on. */
SEXP launcher_signal(SEXP process, SEXP number);

#endif
