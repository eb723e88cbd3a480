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

/* NULL while the program runs. Then a list: how it has failed, or NULL; and whether it was started.
 * */
SEXP program_end(SEXP control);

/* Ends the program and all its descendants, and waits until they have ended. */
SEXP program_close(SEXP process, SEXP control);

#endif
