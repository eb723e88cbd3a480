/* SPDX-License-Identifier: Apache-2.0
 *
 * The collectives that cut vectors into parts, one for each rank, or put such parts together. They
 * go the way of those in collective.h, but that R (R/collective-parts.R) tells the dimensions and names of the
 * results, of all but plain vectors.
 *
 * Parts of different size are told in `counts`: one double a rank, how much of the last dimension
 * (of a plain vector: how many elements) its part has. Between ranks they travel as int64, as in
 * Python.
 */
#ifndef SPARKRING_PARTS_H
#define SPARKRING_PARTS_H

#include <Rinternals.h>

#include "comm.h"

/* The elements of one of `size` equal parts of x. Does not return when there are none. */
size_t parts_equal(const comm_handle *handle, SEXP x);

/* Gives `output` the dimensions and names of this rank's part, where x is cut into equal ones. */
void parts_shape_part(const comm_handle *handle, SEXP output, SEXP x);

SEXP parts_allgather(SEXP comm, SEXP x, SEXP start);
SEXP parts_gather(SEXP comm, SEXP x, SEXP root, SEXP start);
SEXP parts_scatter(SEXP comm, SEXP x, SEXP root, SEXP start);
SEXP parts_alltoall(SEXP comm, SEXP x, SEXP start);

/* The counts of what every rank brings. Collective. Without a root to check it is 0. */
SEXP parts_extents(SEXP comm, SEXP x, SEXP root);
SEXP parts_allgatherv(SEXP comm, SEXP x, SEXP counts, SEXP start);
SEXP parts_gatherv(SEXP comm, SEXP x, SEXP counts, SEXP root, SEXP start);
SEXP parts_scatterv(SEXP comm, SEXP x, SEXP counts, SEXP root, SEXP start);

/* The counts of what comes from every rank, when `counts` go to them. Collective. */
SEXP parts_exchange(SEXP comm, SEXP x, SEXP counts);
SEXP parts_alltoallv(SEXP comm, SEXP x, SEXP sends, SEXP receives, SEXP start);

#endif
