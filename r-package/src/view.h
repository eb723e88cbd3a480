/* SPDX-License-Identifier: Apache-2.0
 *
 * A view: the memory of an R vector as the core needs it (pointer, count, dtype), without a copy.
 * double is float64; integer and logical are int32; raw is uint8; complex is complex128. Other types are refused with
 * advice. So are integer64, whose doubles are not numbers, and classes that give numbers an unknown
 * meaning (classed.h). The memory stays in place as long as the vector is protected.
 */
#ifndef SPARKRING_VIEW_H
#define SPARKRING_VIEW_H

#include <Rinternals.h>
#include <stdbool.h>

#include "core/sparkring.h"

typedef struct view {
  const void *data; /* NULL where there are no elements */
  size_t count;
  ring_dtype dtype;
} view;

/* The view of a vector. Raises an error when there is none; the user knows the vector as `x`, or
 * by this name. */
view view_of(SEXP x);
view view_named(SEXP x, const char *name);

/* x as it is sent: dates as doubles (classed.h). Raises an error when there is no view. */
SEXP view_vector(SEXP x, const char *name);

/* The length along which vectors are cut and concatenated: the last dimension of an array, or the
 * length of a vector without dimensions. */
R_xlen_t view_extent(SEXP x);

/* The elements of one step along the extent. */
R_xlen_t view_stride(SEXP x);

/* Raises an error when x is integer or logical and holds NA, which is a number to the core. */
void view_refuse_na(SEXP x, const char *name);

/* The memory of a new vector, for the core to write to. */
void *view_output(SEXP x);

/* Sets every element of a logical vector to TRUE, FALSE or NA. Other ranks send logicals as int32, which
 * may have any value: a value other than 0 becomes TRUE. */
void view_normalise(SEXP x);

/* Whether a vector has no attributes, and so a result made from it needs none. */
bool view_is_plain(SEXP x);

/* Gives `to` the dim and dimnames, or else the names, of `from`, which has the same length. */
void view_copy_shape(SEXP to, SEXP from);

#endif
