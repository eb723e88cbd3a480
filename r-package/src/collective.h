/* SPDX-License-Identifier: Apache-2.0
 *
 * The collectives that keep a vector whole, and the reductions. Each goes the same way: a view of the argument, a result of R's making, one call
 * of the core, a condition where that failed, the shape. Nothing of R's is written to but the
 * result, and the core is left before R is asked to do anything that may jump.
 */
#ifndef SPARKRING_COLLECTIVE_H
#define SPARKRING_COLLECTIVE_H

#include <Rinternals.h>

SEXP collective_allreduce(SEXP comm, SEXP x, SEXP op);
SEXP collective_reduce(SEXP comm, SEXP x, SEXP op, SEXP root);
SEXP collective_reduce_scatter(SEXP comm, SEXP x, SEXP op);
SEXP collective_broadcast(SEXP comm, SEXP x, SEXP root);
SEXP collective_barrier(SEXP comm);

#endif
