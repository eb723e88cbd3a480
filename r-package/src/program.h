/* SPDX-License-Identifier: Apache-2.0
 *
 * The program that a rank starts for ring_mpi_run(), in R's process. A guardian starts and ends it
 * (guardian.h).
 */
#ifndef SPARKRING_PROGRAM_H
#define SPARKRING_PROGRAM_H

#include <Rinternals.h>

/* Starts a program, which has the connection to a PMI server. Arguments: the server, the command,
 * "NAME=value" or "NAME" for variables to set or to remove, and the working directory or NULL.
 * Returns the process id of the guardian, the connection to it, and descriptors to read output and
 * errors from. */
SEXP program_start(SEXP pmi, SEXP command, SEXP environment, SEXP directory);

/* The next event of the program; NULL: there is none yet. A list: `kind`, "started", "ended",
 * "failed" (it could not be started), "no directory" or "lost" (the guardian was killed); `value`,
 * the process id of a program that has started; and `text`, how it has failed, or NULL. */
SEXP program_event(SEXP control);

/* Ends the program and all its descendants, and waits until they have ended. */
SEXP program_stop(SEXP guardian, SEXP control);

#endif
