/* SPDX-License-Identifier: Apache-2.0
 *
 * The collectives that keep a vector whole, and the reductions. Each has the same steps: a view of
 * the argument, a new vector for the result with its shape, and one call of the core, which blocks
 * or, where `start` is TRUE, returns a request. A failure becomes a condition. Only the result is
 * written to, and the core has returned before R runs anything that may jump. `factors` are two doubles.
 */
#ifndef SPARKRING_COLLECTIVE_H
#define SPARKRING_COLLECTIVE_H

#include <Rinternals.h>

SEXP collective_allreduce(SEXP comm, SEXP x, SEXP op, SEXP factors, SEXP start);
SEXP collective_group(SEXP comm, SEXP kind, SEXP xs, SEXP op, SEXP root, SEXP factors, SEXP start);
SEXP collective_reduce(SEXP comm, SEXP x, SEXP op, SEXP root, SEXP factors, SEXP start);
SEXP collective_reduce_scatter(SEXP comm, SEXP x, SEXP op, SEXP factors, SEXP start);
SEXP collective_reduce_scatterv(SEXP comm, SEXP x, SEXP counts, SEXP op, SEXP factors, SEXP start);
SEXP collective_scan(SEXP comm, SEXP x, SEXP op, SEXP exclusive, SEXP start);
SEXP collective_broadcast(SEXP comm, SEXP x, SEXP root, SEXP start);
SEXP collective_barrier(SEXP comm, SEXP start);

#endif
