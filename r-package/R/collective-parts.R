# SPDX-License-Identifier: Apache-2.0
#
# Vectors are cut into parts, and parts are concatenated, along the last dimension, so that the
# elements of a part are contiguous. A shape is a list of attributes. Where `x` has attributes, C
# calls these functions for the shape of a result, and sets the attributes.

extent <- function(x) if (is.null(dim(x))) length(x) else dim(x)[[length(dim(x))]]

last_labels <- function(x) {
  if (is.null(dim(x))) return(names(x))
  if (!is.null(dimnames(x))) dimnames(x)[[length(dim(x))]]
}

# The shape of `x` with `extent` as its last dimension, and `labels` on it. NULL where `extent` is
# 2^31 or more, which is no dimension in R.
resized_shape <- function(x, extent, labels = NULL) {
  if (is.null(dim(x))) return(list(names = labels))
  if (extent > .Machine$integer.max) return(NULL)
  last <- length(dim(x))
  shape <- list(dim = c(dim(x)[-last], as.integer(extent)), dimnames = dimnames(x))
  if (!is.null(shape$dimnames)) shape$dimnames[last] <- list(labels)
  if (all(lengths(shape$dimnames) == 0L)) shape$dimnames <- NULL
  shape
}

# The shape of the part of a rank, where `x` is cut into equal parts.
part_shape <- function(x, rank, size) {
  part <- extent(x) / size
  resized_shape(x, part, last_labels(x)[rank * part + seq_len(part)])
}

# The shape of the part of a rank, where `x` is cut into parts of `counts`.
counted_shape <- function(x, rank, counts) {
  labels <- last_labels(x)[sum(counts[seq_len(rank)]) + seq_len(counts[[rank + 1L]])]
  resized_shape(x, counts[[rank + 1L]], labels)
}

# The shape of `x` with one more dimension: the rank.
gathered_shape <- function(x, size) {
  shape <- dim(x)
  if (is.null(shape)) {
    if (length(x) == 1L || length(x) > .Machine$integer.max) return(NULL)
    shape <- length(x)
  }
  labels <- if (is.null(dim(x))) list(names(x)) else dimnames(x)
  labels <- if (any(lengths(labels) > 0L)) append_empty(labels)
  list(dim = c(shape, size), dimnames = labels)
}

append_empty <- function(labels) {
  titles <- names(labels)
  labels <- c(labels, list(NULL))
  if (!is.null(titles)) names(labels) <- c(titles, "")
  labels
}

#' Gather and allgather the vectors of all ranks
#'
#' Every rank passes a vector of the same type, length, shape and names. With `ring_allgather()`
#' every rank gets the vectors of all ranks, in rank order. With `ring_gather()` only rank `root`
#' gets them. Missing values are kept.
#'
#' @inheritParams ring_allreduce
#' @param x A double, integer, logical, complex or raw vector or array. It is never modified.
#' @param root The rank that gets the result, a whole number from 0.
#' @returns A vector or array of the type of `x`, whose last dimension is the rank:
#'   * from single numbers, a vector with an element for each rank;
#'   * from vectors, a matrix with a column for each rank;
#'   * from arrays, an array with one more dimension.
#'
#'   The other dimensions have the names and dimnames of `x`. Dates, times and durations keep their
#'   class. A table becomes an array of its counts. R has no dimensions of 2^31 or more: vectors of
#'   that length become one vector without dimensions. `ring_gather()` returns `NULL` on the ranks
#'   other than `root`.
#' @inheritSection ring_allreduce Errors
#' @seealso [ring_allgatherv()], for vectors of different lengths; [ring_allgather_object()], for
#'   any R values; [ring_scatter()], the inverse of `ring_gather()`.
#' @examples
#' comm <- ring_init()
#' ring_allgather(comm, 2.5)
#' ring_allgather(comm, c(rows = 10L, columns = 3L))
#' ring_gather(comm, matrix(1:4, nrow = 2), root = 0)
#' ring_close(comm)
#' @export
ring_allgather <- function(comm, x) {
  check_given(comm, x)
  .Call(C_parts_allgather, comm, x, FALSE)
}

#' @rdname ring_allgather
#' @export
ring_gather <- function(comm, x, root = 0) {
  check_given(comm, x)
  .Call(C_parts_gather, comm, x, root, FALSE)
}

#' Scatter the vector of one rank in equal parts
#'
#' Root's vector is cut into equal parts, one for each rank, and rank r gets part r. Every rank
#' passes a vector of the same type, length, shape and names. Missing values are kept.
#'
#' @inheritParams ring_reduce_scatter
#' @param x A double, integer, logical, complex or raw vector or array. It is never modified. On
#'   ranks other than `root` the values are ignored; type, length, shape, names and class must
#'   match. An array is cut along the last dimension, a matrix into groups of columns. The last
#'   dimension of an array, or the length of a vector, must be a multiple of the number of ranks.
#' @param root The rank whose vector is cut, a whole number from 0.
#' @returns The part of this rank, with the type and class of `x`, and the dimensions, names and
#'   dimnames that the part has in `x`.
#' @inheritSection ring_allreduce Errors
#' @seealso [ring_scatterv()], for parts of different lengths; [ring_scatter_object()], for any R
#'   values; [ring_gather()], the inverse.
#' @examples
#' comm <- ring_init()
#' ring_scatter(comm, c(a = 1, b = 2))
#' ring_scatter(comm, matrix(1:6, nrow = 2))
#' ring_close(comm)
#' @export
ring_scatter <- function(comm, x, root = 0) {
  check_given(comm, x)
  .Call(C_parts_scatter, comm, x, root, FALSE)
}

#' Alltoall: exchange equal parts between all ranks
#'
#' Every rank passes a vector of the same type, length, shape and names. Each vector is cut into
#' equal parts, one for each rank. Part r of rank s becomes part s of rank r. Missing values are
#' kept.
#'
#' @inheritParams ring_reduce_scatter
#' @returns A vector or array with the type, dimensions, names, dimnames and class of `x`.
#' @inheritSection ring_allreduce Errors
#' @seealso [ring_alltoallv()], for parts of different lengths; [ring_alltoall_object()], for any R
#'   values.
#' @examples
#' comm <- ring_init()
#' ring_alltoall(comm, c(a = 1, b = 2))
#' ring_close(comm)
#' @export
ring_alltoall <- function(comm, x) {
  check_given(comm, x)
  .Call(C_parts_alltoall, comm, x, FALSE)
}
