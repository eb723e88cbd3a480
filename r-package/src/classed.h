/* SPDX-License-Identifier: Apache-2.0
 *
 * Vectors whose class gives their numbers a meaning: without the class a number would be another
 * value. Vectors of the classes below, and of classes that inherit from them, are sent and keep their
 * class. Other classes are refused (view.h).
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

/* Returns x, or doubles where x is a date, time or duration stored as integers or logicals. R
 * stores them as either type, and ranks must not differ. */
SEXP classed_numbers(SEXP x);

/* Whether the result of op is logical. */
bool classed_is_logical(ring_op op);

/* Raises an error when `op`, written `text`, is not defined for the class of x, as in base R. */
void classed_check_op(SEXP x, const char *name, ring_op op, const char *text);

/* Sets the class of x, with units or time zone, on a result of the shape of x or of a part of it. */
void classed_keep(SEXP to, SEXP x);

/* The same for the result of `op`: an average is a double, of the class that base R gives it. */
void classed_keep_reduced(SEXP to, SEXP x, ring_op op);

/* The same for parts that were concatenated: a table becomes an array, as after cbind(). */
void classed_keep_together(SEXP to, SEXP x);

/* Raises an error when x is a table: variable-length parts lose the names of the last dimension. */
void classed_refuse_table(SEXP x);

#endif
