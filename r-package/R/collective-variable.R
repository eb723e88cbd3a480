# SPDX-License-Identifier: Apache-2.0
#
# Variable-length collectives (v-variants). A count is the size of a part in the last dimension, or
# the number of elements of a vector without dimensions. That holds for arguments, and for the
# messages by which ranks exchange their counts.

#' Gather and allgather vectors of different lengths
#'
#' Every rank passes a vector of the same type and class, of any length. The vectors are
#' concatenated in rank order. With `ring_allgatherv()` every rank gets the result, with
#' `ring_gatherv()` only rank `root`. The ranks exchange their lengths first. Missing values are
#' kept.
#'
#' @inheritParams ring_allgather
#' @param x A double, integer, logical, complex or raw vector of any length, or an array. It is
#'   never modified. Only the last dimension of an array may differ between ranks: matrices must
#'   have the same number of rows.
#' @returns A vector or array with the type and class of `x`, concatenated along the last dimension:
#'   matrices as by [cbind()]. The other dimensions have the dimnames of `x`, which must be the same
#'   on all ranks. The last dimension has no dimnames, and a vector has no names. A table would lose
#'   its levels, so it is an error. An array whose last dimension would be 2^31 or more becomes a
#'   vector without dimensions. `ring_gatherv()` returns `NULL` on the ranks other than `root`.
#' @inheritSection ring_allreduce Errors
#' @seealso [ring_allgather()], for vectors of the same length; [ring_scatterv()], the inverse of
#'   `ring_gatherv()`; [ring_allgather_object()], for any R values.
#' @examples
#' comm <- ring_init()
#' ring_allgatherv(comm, seq_len(ring_rank(comm) + 2))
#' ring_gatherv(comm, matrix(1:6, nrow = 2), root = 0)
#' ring_close(comm)
#' @export
ring_allgatherv <- function(comm, x) {
  check_given(comm, x)
  .Call(C_parts_allgatherv, comm, x, .Call(C_parts_extents, comm, x, 0L), FALSE)
}

#' @rdname ring_allgatherv
#' @export
ring_gatherv <- function(comm, x, root = 0) {
  check_given(comm, x)
  .Call(C_parts_gatherv, comm, x, .Call(C_parts_extents, comm, x, root), root, FALSE)
}

#' Scatter the vector of one rank in parts of different lengths
#'
#' Root's vector is cut into parts of the lengths `counts`, and rank r gets part r. Every rank
#' passes the same `counts`, so the ranks need not exchange them. Missing values are kept.
#'
#' @inheritParams ring_scatter
#' @param x A double, integer, logical, complex or raw vector or array. It is never modified. An
#'   array is cut along the last dimension, a matrix into groups of columns. On ranks other than
#'   `root` the values and the last dimension are ignored, so `double()` is enough for a double
#'   vector; type, class, and the other dimensions with their dimnames must match.
#' @param counts A vector of whole numbers, one for each rank, the same on every rank: the number of
#'   elements of each part. For an array it is the size of the part in the last dimension, for a
#'   matrix the number of columns. The sum is the length, or the last dimension, of root's `x`.
#' @returns The part of this rank, with the type and class of `x`. Dimensions and dimnames are those
#'   of `x`, except in the last dimension, which has no dimnames. A vector has no names.
#' @inheritSection ring_allreduce Errors
#' @seealso [ring_scatter()], for equal parts; [ring_gatherv()], the inverse.
#' @examples
#' comm <- ring_init()
#' ring_scatterv(comm, c(2.5, 3, 4), counts = 3)
#' ring_scatterv(comm, matrix(1:6, nrow = 2), counts = 3)
#' ring_close(comm)
#' @export
ring_scatterv <- function(comm, x, counts, root = 0) {
  check_given(comm, x, counts)
  .Call(C_parts_scatterv, comm, x, check_counts(counts), root, FALSE)
}

#' Alltoall: exchange parts of different lengths between all ranks
#'
#' Every rank cuts its vector into parts of the lengths `counts`, one for each rank. Part r is sent
#' to rank r. The ranks exchange the lengths first. Missing values are kept.
#'
#' @inheritParams ring_allgatherv
#' @param counts A vector of whole numbers, one for each rank: the number of elements of `x` for
#'   that rank. For an array it is the size of the part in the last dimension, for a matrix the
#'   number of columns. The sum is the length, or the last dimension, of `x`.
#' @param return_counts Whether to return the number of elements from each rank, too.
#' @returns The received parts, concatenated in rank order along the last dimension: a vector or
#'   array with the type and class of `x`. The other dimensions have the dimnames of `x`, which must
#'   be the same on all ranks. The last dimension has no dimnames, and a vector has no names.
#'
#'   With `return_counts = TRUE`, a list of that vector, `x`, and of `counts`, one number for each
#'   rank: how much of `x` came from that rank.
#' @inheritSection ring_allreduce Errors
#' @seealso [ring_alltoall()], for equal parts; [ring_alltoall_object()], for any R values.
#' @examples
#' comm <- ring_init()
#' keys <- c(3L, 8L, 5L)
#' owner <- keys %% ring_size(comm)
#' counts <- tabulate(owner + 1L, nbins = ring_size(comm))
#' ring_alltoallv(comm, keys[order(owner)], counts)
#' ring_close(comm)
#' @export
ring_alltoallv <- function(comm, x, counts, return_counts = FALSE) {
  check_given(comm, x, counts)
  alltoallv(comm, x, counts, return_counts, start = FALSE)
}

alltoallv <- function(comm, x, counts, return_counts, start) {
  sends <- check_counts(counts)
  check_flag(return_counts, "return_counts")
  receives <- .Call(C_parts_exchange, comm, x, sends)
  .Call(C_parts_alltoallv, comm, x, sends, receives, return_counts, start)
}
