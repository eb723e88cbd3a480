# SPDX-License-Identifier: Apache-2.0
#
# Vectors are cut into parts, and parts concatenated, along the last dimension, where the elements
# of a part are contiguous. A shape is a list of attributes. C asks for the shape of a result, and
# sets the attributes, where `x` has any.

extent <- function(x) if (is.null(dim(x))) length(x) else dim(x)[[length(dim(x))]]

last_labels <- function(x) {
  if (is.null(dim(x))) return(names(x))
  if (!is.null(dimnames(x))) dimnames(x)[[length(dim(x))]]
}

# The shape of `x` with `extent` as its last dimension, and these labels. R has no dimensions of
# 2^31 and more.
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
#' Every rank passes a vector of the same type, length, shape and names. `ring_allgather()` gives
#' the vectors of all ranks, in rank order, to every rank; `ring_gather()` gives them to rank
#' `root`. Missing values are kept.
#'
#' @inheritParams ring_allreduce
#' @param x A double, integer, logical, complex or raw vector or array. It is never modified.
#' @param root The rank that gets the result.
#' @returns The last dimension is the rank. From numbers that is a plain vector with an element for
#'   each rank, from vectors a matrix with a column for each rank, and from arrays an array with one
#'   dimension more. Names and dimnames name the other dimensions. Dates, times and durations keep
#'   their class; a table becomes an array of its counts. (Vectors of 2^31 and more
#'   elements, for which R has no dimensions, become one long plain vector.) `ring_gather()` returns
#'   `NULL` on the ranks other than `root`.
#' @inheritSection ring_allreduce Errors
#' @seealso [ring_allgatherv()] for vectors that differ in length.
#' @examples
#' comm <- ring_init()
#' ring_allgather(comm, 2.5)
#' ring_allgather(comm, c(rows = 10L, columns = 3L))
#' ring_gather(comm, matrix(1:4, nrow = 2), root = 0)
#' ring_close(comm)
#' @export
ring_allgather <- function(comm, x) .Call(C_parts_allgather, comm, x, FALSE)

#' @rdname ring_allgather
#' @export
ring_gather <- function(comm, x, root = 0) .Call(C_parts_gather, comm, x, root, FALSE)

#' Scatter the vector of one rank in equal parts
#'
#' Part r of root's vector goes to rank r. Missing values are kept.
#'
#' @inheritParams ring_reduce_scatter
#' @param x A double, integer, logical, complex or raw vector or array. It is never modified; on ranks other
#'   than `root` all but its values count. Arrays are cut along the last dimension (a
#'   matrix: into groups of columns), which is a multiple of the size; of a plain vector the length
#'   is one.
#' @param root The rank whose vector is cut.
#' @returns The part of this rank, with the dimensions, names and dimnames that it has in `x`, which
#'   are the same on all ranks, and the class of `x`.
#' @inheritSection ring_allreduce Errors
#' @seealso [ring_scatterv()] for parts of any length; [ring_gather()], which does the opposite.
#' @examples
#' comm <- ring_init()
#' ring_scatter(comm, c(a = 1, b = 2))
#' ring_scatter(comm, matrix(1:6, nrow = 2))
#' ring_close(comm)
#' @export
ring_scatter <- function(comm, x, root = 0) .Call(C_parts_scatter, comm, x, root, FALSE)

#' Alltoall: give every rank a part of the vector of each
#'
#' Every rank passes a vector of the same type, length, shape and names, which is cut into equal
#' parts: part r of rank s becomes part s of rank r. Missing values are kept.
#'
#' @inheritParams ring_reduce_scatter
#' @returns A vector of the type, dimensions, names, dimnames and class of `x`.
#' @inheritSection ring_allreduce Errors
#' @seealso [ring_alltoallv()] for parts of any length.
#' @examples
#' comm <- ring_init()
#' ring_alltoall(comm, c(a = 1, b = 2))
#' ring_close(comm)
#' @export
ring_alltoall <- function(comm, x) .Call(C_parts_alltoall, comm, x, FALSE)
