/* SPDX-License-Identifier: Apache-2.0
 *
 * Vectors whose class says what their numbers mean: a number without it would be another value. The
 * classes below, and those that inherit from them, go in and come out; others are refused (view.h).
 */
#ifndef SPARKRING_CLASSED_H
#define SPARKRING_CLASSED_H

#include <Rinternals.h>
#include <stdbool.h>

#include "core/sparkring.h"

typedef enum classed {
  CLASSED_NOT,      /* no class */
  CLASSED_DATE,     /* days */
  CLASSED_TIME,     /* POSIXct: seconds, shown in the time zone of its rank */
  CLASSED_DURATION, /* difftime: in units */
  CLASSED_TABLE,    /* counts, with dimnames */
  CLASSED_UNKNOWN
} classed;

classed classed_of(SEXP x);

/* x, or where it is a date, time or duration that is stored as integers or logicals, the same as
 * doubles: R stores them as either, and ranks must not differ in that. */
SEXP classed_numbers(SEXP x);

/* Does not return when `op`, written `text`, is not defined for the class of x, as in base R. */
void classed_check_op(SEXP x, const char *name, ring_op op, const char *text);

/* Gives a result, which has the shape of x or of a part of it, the class of x, with units or time
 * zone. */
void classed_keep(SEXP to, SEXP x);

/* The same for what `op` has made of x: an average is a double, of the class that base R gives it. */
void classed_keep_reduced(SEXP to, SEXP x, ring_op op);

/* The same for parts of several ranks, put together: no table any more, as after cbind(). */
void classed_keep_together(SEXP to, SEXP x);

/* Does not return when x is a table: parts of any length lose the names of the last dimension. */
void classed_refuse_table(SEXP x);

#endif
