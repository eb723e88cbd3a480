/* SPDX-License-Identifier: Apache-2.0
 *
 * The side of ring_launch() in R's process. The supervisor process starts the ranks (supervisor.h).
 */
#ifndef SPARKRING_LAUNCHER_H
#define SPARKRING_LAUNCHER_H

#include <Rinternals.h>

/* Starts a job. Arguments: the command, "NAME=value" for the environment, the number of ranks,
 * their token, whether rank 0 has the standard input, and whether the ranks print where this
 * process does. Returns the process id of the supervisor, a descriptor that keeps the job alive,
 * and descriptors to read output and errors from, or NA. */
SEXP launcher_start(SEXP command, SEXP environment, SEXP size, SEXP token, SEXP input, SEXP direct);

/* The exit code of the job, or NULL while it runs. */
SEXP launcher_code(SEXP process, SEXP lifeline);

/* Waits for the job, and forwards signals to it. Kills all processes that the job leaves. Returns the exit
 * code. */
SEXP launcher_wait(SEXP process, SEXP lifeline);

/* Closes the lifeline, so that the supervisor kills the ranks. */
SEXP launcher_close_lifeline(SEXP lifeline);

/* Sends a signal to the supervisor, which forwards it to the ranks. */
SEXP launcher_signal(SEXP process, SEXP number);

#endif
