/* SPDX-License-Identifier: Apache-2.0
 *
 * The R objects of a reducer and of its submissions: external pointers of the classes "ring_reducer" and
 * "ring_submission". A submission protects its reducer, its input and its output.
 */
#ifndef SPARKRING_R_REDUCER_H
#define SPARKRING_R_REDUCER_H

#include <Rinternals.h>

/* The entry points. R/reducer.R documents them, and checks their arguments. */
SEXP reducer_open(SEXP comm, SEXP threshold, SEXP cycle_time, SEXP capacity, SEXP stall_timeout,
                  SEXP autotune, SEXP autotune_log);
SEXP reducer_submit(SEXP reducer, SEXP kind, SEXP name, SEXP x, SEXP op, SEXP root, SEXP splits);
SEXP reducer_join(SEXP reducer);
SEXP reducer_close(SEXP reducer);
SEXP submission_wait(SEXP submission);
SEXP submission_test(SEXP submission);

#endif
