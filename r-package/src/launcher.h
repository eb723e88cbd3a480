/* SPDX-License-Identifier: Apache-2.0
 *
 * The launcher of a job (launch/launcher.h), for ring_launch() and the script sparkring-run.
 */
#ifndef SPARKRING_LAUNCHER_H
#define SPARKRING_LAUNCHER_H

#include <Rinternals.h>

/* Starts a job. Arguments: the command, "NAME=value" for the environment, the number of ranks, and
 * whether rank 0 has the standard input. Returns the process id of the supervisor, a descriptor
 * that keeps the job alive, and descriptors to read output and errors from. */
SEXP launcher_start(SEXP command, SEXP environment, SEXP size, SEXP input);

/* The exit code of the job, or NULL while it runs. */
SEXP launcher_code(SEXP process, SEXP lifeline);

/* Closes the lifeline, so that the supervisor kills the ranks. */
SEXP launcher_close_lifeline(SEXP lifeline);

/* Sends a signal to the supervisor, which forwards it to the ranks. */
SEXP launcher_signal(SEXP process, SEXP number);

/* Runs the command line of sparkring-run with these words. Returns the exit code. */
SEXP launcher_command_line(SEXP words);

#endif
