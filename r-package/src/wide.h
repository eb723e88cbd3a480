/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums and products of integers and logicals. R wants NA where one does not fit into an integer, and
 * the core's int32 would wrap around. So the ranks work them out in wider numbers: a sum in int64, so
 * that whatever fits is right, be the partial sums as they may; a product in float64, which is exact
 * as far as integers go and never comes back to where they are. When a result is there, it becomes
 * an integer vector.
 *
 * Until then the result has those numbers at hand, in an attribute.
 */
#ifndef SPARKRING_WIDE_H
#define SPARKRING_WIDE_H

#include <Rinternals.h>
#include <stdbool.h>

#include "comm.h"
#include "view.h"

bool wide_is_for(SEXP x, ring_op op);

/* The elements of x, which has no NA, as the core is to reduce them: a double vector that holds them,
 * and its view. */
SEXP wide_numbers(const comm_handle *handle, SEXP x, ring_op op);
view wide_view(SEXP numbers, ring_op op);

/* A new integer vector for a result, and where the core is to put its numbers: into `numbers`, in
 * place, or where these are R_NilValue into new ones. */
SEXP wide_output(const comm_handle *handle, R_xlen_t length, ring_op op, SEXP numbers);
void *wide_memory(SEXP output, ring_op op);

/* Turns the numbers of an integer vector, if it has any, into its elements. True where one of them did not fit,
 * and is NA. */
bool wide_settle(SEXP output);

#endif
