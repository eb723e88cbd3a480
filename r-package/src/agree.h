/* SPDX-License-Identifier: Apache-2.0
 *
 * Agreement of all ranks on a step, and strings of all ranks (R/base-agree.R).
 */
#ifndef SPARKRING_AGREE_H
#define SPARKRING_AGREE_H

#include <Rinternals.h>

/* The rank that has failed and why, as a list of a number and a string for the other ranks; NULL where
 * all ranks have succeeded. `failure` is this rank's error as a string, or NULL. `known` is TRUE where
 * all ranks know already that at least one of them has failed. */
SEXP agree_call(SEXP comm, SEXP failure, SEXP known);

/* The character vectors of all ranks, as a list in rank order. */
SEXP agree_strings(SEXP comm, SEXP strings);

#endif
