/* SPDX-License-Identifier: Apache-2.0
 *
 * The collectives that cut vectors into parts, one for each rank, or concatenate such parts. They
 * have the same steps as the collectives of collective.h. R (R/collective-parts.R) computes the
 * dimensions and names of results, except of plain vectors.
 *
 * The `counts` of variable-length collectives have one double for each rank: the size of its part in
 * the last dimension (of a plain vector: in elements). Ranks exchange counts as int64, as in Python.
 */
#ifndef SPARKRING_PARTS_H
#define SPARKRING_PARTS_H

#include <Rinternals.h>

#include "comm.h"

/* The elements of one of `size` equal parts of x. Raises an error when x does not divide. */
size_t parts_equal(const comm_handle *handle, SEXP x);

/* Sets the dimensions and names of this rank's part on `output`, where x is cut into equal parts. */
void parts_shape_part(const comm_handle *handle, SEXP output, SEXP x);

/* A new vector for the parts of all ranks, with its shape and class. */
SEXP parts_gathered(const comm_handle *handle, SEXP x);

/* The elements of the parts into which x is cut by the user's counts, in memory that R frees when the entry
 * point returns; and the dimensions and names of this rank's part. Raises an error for bad counts. */
const size_t *parts_cut(const comm_handle *handle, SEXP x, SEXP counts);
void parts_shape_counted(const comm_handle *handle, SEXP output, SEXP x, SEXP counts);

SEXP parts_allgather(SEXP comm, SEXP x, SEXP start);
SEXP parts_gather(SEXP comm, SEXP x, SEXP root, SEXP start);
SEXP parts_scatter(SEXP comm, SEXP x, SEXP root, SEXP start);
SEXP parts_alltoall(SEXP comm, SEXP x, SEXP start);

/* The counts of the parts of all ranks. Collective. `root` is 0 where there is no root to check. */
SEXP parts_extents(SEXP comm, SEXP x, SEXP root);
SEXP parts_allgatherv(SEXP comm, SEXP x, SEXP counts, SEXP start);
SEXP parts_gatherv(SEXP comm, SEXP x, SEXP counts, SEXP root, SEXP start);
SEXP parts_scatterv(SEXP comm, SEXP x, SEXP counts, SEXP root, SEXP start);

/* The counts of the parts from every rank, when `counts` are sent to them. Collective. */
SEXP parts_exchange(SEXP comm, SEXP x, SEXP counts);
SEXP parts_alltoallv(SEXP comm, SEXP x, SEXP sends, SEXP receives, SEXP return_counts, SEXP start);

#endif
