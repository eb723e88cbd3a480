/* SPDX-License-Identifier: Apache-2.0
 *
 * Elements of R lists by name. A list whose element is missing, or of another type or length, is an R error.
 */
#ifndef SPARKRING_FIELDS_H
#define SPARKRING_FIELDS_H

#include <Rinternals.h>

SEXP fields_get(SEXP list, const char *name);

/* `length` numbers. */
const double *fields_doubles(SEXP list, const char *name, R_xlen_t length);
const int *fields_integers(SEXP list, const char *name, R_xlen_t length);
const int *fields_logicals(SEXP list, const char *name, R_xlen_t length);

/* A matrix of doubles. */
SEXP fields_matrix(SEXP list, const char *name);

#endif
