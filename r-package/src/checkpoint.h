/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of states (R/spark-checkpoint.R).
 */
#ifndef SPARKRING_CHECKPOINT_H
#define SPARKRING_CHECKPOINT_H

#include <Rinternals.h>

/* The name of the file of a state. */
SEXP checkpoint_name(SEXP number);

/* The numbers of the states in files of these names, as doubles; NA for other files. */
SEXP checkpoint_numbers(SEXP names);

/* Whether a state need not be kept. */
SEXP checkpoint_is_old(SEXP number, SEXP newest);

/* The length of the state in a file's content, a raw vector; NULL when the file is not whole. */
SEXP checkpoint_length(SEXP file);

/* Writes the file of a state. Raises an error when it cannot be written. */
SEXP checkpoint_write(SEXP folder, SEXP number, SEXP state);

#endif
