/* SPDX-License-Identifier: Apache-2.0
 *
 * The collectives that keep a vector whole, and the reductions. Each goes the same way: a view of
 * the argument, a new vector for the result with its shape, one call of the core, which waits or,
 * where `start` is TRUE, gives a request, and a condition where that failed. Nothing of R's is
 * written to but the result, and the core is left before R is asked to do anything that may jump.
 */
#ifndef SPARKRING_COLLECTIVE_H
#define SPARKRING_COLLECTIVE_H

#include <Rinternals.h>

SEXP collective_allreduce(SEXP comm, SEXP x, SEXP op, SEXP start);
SEXP collective_allreduce_group(SEXP comm, SEXP xs, SEXP op, SEXP start);
SEXP collective_reduce(SEXP comm, SEXP x, SEXP op, SEXP root, SEXP start);
SEXP collective_reduce_scatter(SEXP comm, SEXP x, SEXP op, SEXP start);
SEXP collective_broadcast(SEXP comm, SEXP x, SEXP root, SEXP start);
SEXP collective_barrier(SEXP comm, SEXP start);

#endif
