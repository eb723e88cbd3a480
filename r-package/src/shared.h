/* SPDX-License-Identifier: Apache-2.0
 *
 * Vectors in memory that the ranks of a host share, so that collectives on them need no copies:
 * ALTREP, whose header is R's and whose elements are the core's (ring_alloc). R allocates vectors
 * with memory of one's own choice, too (allocVector3), but puts the header there as well, and a
 * forked child shares that memory: its collector would move the parent's vectors about.
 *
 * To R they are vectors like any other: they are saved, copied and grown into ordinary ones. What
 * they hold is not R's memory, so it does not make the collector run: when much has been allocated
 * since, it is called here, for the young vectors alone where that will do.
 */
#ifndef SPARKRING_SHARED_H
#define SPARKRING_SHARED_H

#include <R_ext/Rdynload.h>
#include <Rinternals.h>

#include "comm.h"

/* When the library is loaded. */
void shared_init(DllInfo *dll);

/* A new vector, not zeroed: in shared memory where there is any and the vector is large enough. */
SEXP shared_vector(const comm_handle *handle, SEXPTYPE type, R_xlen_t length);

/* Frees the memory of a vector that nobody refers to any more, for the next one to take: before R
 * collects it. */
void shared_release(SEXP x);

/* The entry points: ring_alloc(), and, for test-shared.R, whether x is in memory of the core. */
SEXP shared_alloc(SEXP comm, SEXP type, SEXP length);
SEXP shared_is(SEXP x);

#endif
