/* SPDX-License-Identifier: Apache-2.0
 *
 * The description of a vector beyond its type and length, for the check that all ranks make the same
 * call: dimensions, names, dimnames and class. A plain vector has none of them, and digest 0. A plain
 * array has the digest of its dimensions as NumPy counts them, last one first, so the digest is also
 * that of the NumPy array with the same bytes.
 */
#ifndef SPARKRING_DESCRIPTION_H
#define SPARKRING_DESCRIPTION_H

#include <Rinternals.h>

#include "comm.h"

typedef struct description {
  uint64_t digest;
  size_t length; /* of the text; more than fits where some of it is missing */
  char text[200];
} description;

/* Of all that x has. */
description description_of(SEXP x);

/* Adds that x, of integers, is sent as doubles, so that it does not match doubles. */
void description_add_integers(description *description);

/* Adds a vector of a group, the i-th one of `count`, and the names of the group itself. */
void description_add_member(description *group, SEXP x, R_xlen_t i, R_xlen_t count);
void description_add_names(description *group, SEXP xs);

/* Passes the description of the next call to the core. R must not jump in between. */
void describe(const comm_handle *handle, const description *description);
void describe_whole(const comm_handle *handle, SEXP x);

/* The same without the length and the names of the last dimension, in which parts may differ. */
void describe_part(const comm_handle *handle, SEXP x);

#endif
