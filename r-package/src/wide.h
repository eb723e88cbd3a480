/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums and products of integers and logicals. R needs NA where a result does not fit into an integer,
 * and the core's int32 would wrap around. So the ranks compute in wider numbers. A sum is in int64,
 * so every sum that fits is right, whatever its partial sums are. A product is in float64, which is
 * exact for all integers, and a product that has left their range stays outside. A finished result
 * becomes an integer vector.
 *
 * Until then the result holds the wide numbers in an attribute.
 */
#ifndef SPARKRING_WIDE_H
#define SPARKRING_WIDE_H

#include <Rinternals.h>
#include <stdbool.h>

#include "comm.h"
#include "view.h"

bool wide_is_for(SEXP x, ring_op op);

/* The elements of x, which has no NA, as the core is to reduce them: a double vector that holds
 * them, and its view. */
SEXP wide_numbers(const comm_handle *handle, SEXP x, ring_op op);
view wide_view(SEXP numbers, ring_op op);

/* A new integer vector for a result, and the memory for its wide numbers: `numbers`, in place, or
 * new memory where `numbers` is R_NilValue. */
SEXP wide_output(const comm_handle *handle, R_xlen_t length, ring_op op, SEXP numbers);
void *wide_memory(SEXP output, ring_op op);

/* Converts the wide numbers of an integer vector, if it has any, to its elements. True where a
 * number did not fit and is NA. */
bool wide_finish(SEXP output);

#endif
