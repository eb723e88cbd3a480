/* SPDX-License-Identifier: Apache-2.0
 *
 * Envelopes of objects (R/object-codec.R).
 */
#ifndef SPARKRING_ENVELOPE_H
#define SPARKRING_ENVELOPE_H

#include <Rinternals.h>

/* The trailer of an object with `length` bytes, for the byte order of this machine, as a raw vector. */
SEXP envelope_trailer(SEXP length);

/* The envelope of an error with this text, as a raw vector. */
SEXP envelope_failure(SEXP text);

/* Where each of `count` envelopes begins, counted from 0, and where the last ends, as doubles; NULL when
 * these are no envelopes. */
SEXP envelope_split(SEXP bytes, SEXP count);

/* NULL for an object that R reads here, else why it cannot. */
SEXP envelope_check(SEXP envelope, SEXP rank);

#endif
