/* SPDX-License-Identifier: Apache-2.0
 *
 * Child processes that the package parallel has forked: how they end, and how they are killed.
 */
#ifndef SPARKRING_CHILD_PROCESS_H
#define SPARKRING_CHILD_PROCESS_H

#include <Rinternals.h>

/* In a child: becomes another program. Returns only by an error, when the program cannot be run. */
SEXP child_become(SEXP command);

/* Kills a child with its process group. */
SEXP child_kill(SEXP process);

/* The process id of the parent, or of the process that has adopted this one. */
SEXP child_parent(void);

/* Notes from now on how a child ends. */
SEXP child_watch(SEXP process);

/* Stops the watch of a child. Returns its exit code, a negative signal number, or NA. */
SEXP child_end(SEXP process);

/* Whether a child has ended, reaped or not. */
SEXP child_gone(SEXP process);

#endif
