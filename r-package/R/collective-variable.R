# SPDX-License-Identifier: Apache-2.0
#
# Variable-length collectives (v-variants). Counts are in the last dimension (of a plain vector: in
# elements), in arguments and in the messages by which ranks exchange their counts.

#' Gather and allgather vectors of any length
#'
#' Every rank passes a vector of the same type and class. `ring_allgatherv()` concatenates the
#' vectors in rank order and gives the result to every rank; `ring_gatherv()` gives it to rank
#' `root`. The ranks exchange their lengths first. Missing values are kept.
#'
#' @inheritParams ring_allgather
#' @param x A double, integer, logical, complex or raw vector, of any length, or array, whose last dimension
#'   may differ from rank to rank: matrices have the same number of rows. It is never modified.
#' @returns A vector of the type and class of `x`, or an array, concatenated along the last
#'   dimension. Names and dimnames are those of `x`, which are the same on all ranks, without those
#'   of the last dimension (and so without the names of a plain vector). A table would lose its
#'   levels and is an error. (Arrays whose last dimension would be 2^31 or more become one long
#'   plain vector.) `ring_gatherv()` returns `NULL` on the ranks other than `root`.
#' @inheritSection ring_allreduce Errors
#' @seealso [ring_allgather()] for vectors of the same length.
#' @examples
#' comm <- ring_init()
#' ring_allgatherv(comm, seq_len(ring_rank(comm) + 2))
#' ring_gatherv(comm, matrix(1:6, nrow = 2), root = 0)
#' ring_close(comm)
#' @export
ring_allgatherv <- function(comm, x) {
  .Call(C_parts_allgatherv, comm, x, .Call(C_parts_extents, comm, x, 0L), FALSE)
}

#' @rdname ring_allgatherv
#' @export
ring_gatherv <- function(comm, x, root = 0) {
  .Call(C_parts_gatherv, comm, x, .Call(C_parts_extents, comm, x, root), root, FALSE)
}

#' Scatter the vector of one rank in parts of any length
#'
#' Part r of root's vector goes to rank r. Missing values are kept. Every rank knows all counts, so
#' the ranks need not exchange them first, as in [ring_allgatherv()], [ring_gatherv()] and
#' [ring_alltoallv()].
#'
#' @inheritParams ring_scatter
#' @param x A double, integer, logical, complex or raw vector or array. It is never modified. Arrays are cut
#'   along the last dimension (a matrix: into groups of columns). On ranks other than `root` only
#'   its type, its class and its other dimensions, with their names, count: for a plain vector,
#'   `double()` will do.
#' @param counts How many elements each rank gets, or for arrays how much of the last dimension (of
#'   a matrix: how many columns). The same numbers on every rank, one for each; they add up to the
#'   length, or the last dimension, of root's `x`.
#' @returns The part of this rank, of the class of `x`. Dimensions and dimnames are those of `x`,
#'   but for the last dimension, which has no names (and neither has a plain vector).
#' @inheritSection ring_allreduce Errors
#' @seealso [ring_scatter()] for equal parts.
#' @examples
#' comm <- ring_init()
#' ring_scatterv(comm, c(2.5, 3, 4), counts = 3)
#' ring_scatterv(comm, matrix(1:6, nrow = 2), counts = 3)
#' ring_close(comm)
#' @export
ring_scatterv <- function(comm, x, counts, root = 0) {
  .Call(C_parts_scatterv, comm, x, check_counts(counts), root, FALSE)
}

#' Alltoall with parts of any length
#'
#' Every rank cuts its vector into parts, one for each rank, and gets the parts that are for it. The
#' ranks exchange the lengths first. Missing values are kept.
#'
#' @inheritParams ring_allgatherv
#' @param counts How many elements of `x` go to each rank, or for arrays how much of the last
#'   dimension (of a matrix: how many columns). One number for each rank; they add up to the length,
#'   or the last dimension, of `x`.
#' @returns The received parts, in rank order: a vector of the type and class of `x`, or an array,
#'   concatenated along the last dimension. Names and dimnames are those of `x`, which are the same
#'   on all ranks, without those of the last dimension (and so without the names of a plain vector).
#' @inheritSection ring_allreduce Errors
#' @seealso [ring_alltoall()] for equal parts.
#' @examples
#' comm <- ring_init()
#' keys <- c(3L, 8L, 5L)
#' owner <- keys %% ring_size(comm)
#' counts <- tabulate(owner + 1L, nbins = ring_size(comm))
#' ring_alltoallv(comm, keys[order(owner)], counts)
#' ring_close(comm)
#' @export
ring_alltoallv <- function(comm, x, counts) {
  sends <- check_counts(counts)
  .Call(C_parts_alltoallv, comm, x, sends, .Call(C_parts_exchange, comm, x, sends), FALSE)
}
