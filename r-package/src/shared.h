/* SPDX-License-Identifier: Apache-2.0
 *
 * Vectors in memory that the ranks of a host share, so that collectives on them need no copies:
 * ALTREP, with the header in R's memory and the elements in the core's (ring_alloc). allocVector3
 * would put the header into shared memory, too. A forked child shares that memory, and its collector
 * would move the parent's vectors.
 *
 * To R they are vectors like any other: they are saved, copied and grown into ordinary vectors. Their
 * elements are not R's memory, so allocating them does not make R's collector run. When many bytes
 * have been allocated, the collector is called here, for the young vectors alone where that frees
 * enough.
 */
#ifndef SPARKRING_SHARED_H
#define SPARKRING_SHARED_H

#include <R_ext/Rdynload.h>
#include <Rinternals.h>

#include "comm.h"

/* Called when the library is loaded. */
void shared_init(DllInfo *dll);

/* A new vector, not zeroed: in shared memory where there is any and the vector is large enough. */
SEXP shared_vector(const comm_handle *handle, SEXPTYPE type, R_xlen_t length);

/* Frees the memory of a vector that is not referenced any more, for the next vector, before R
 * collects it. */
void shared_release(SEXP x);

/* The entry points: ring_alloc(), and, for test-shared.R, whether x is in memory of the core. */
SEXP shared_alloc(SEXP comm, SEXP type, SEXP length);
SEXP shared_is(SEXP x);

#endif
