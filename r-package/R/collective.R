# SPDX-License-Identifier: Apache-2.0

#' Allreduce: sum (or min, max, ...) vectors over all ranks
#'
#' Every rank passes a vector of the same type, length and shape. `op` combines the vectors of all
#' ranks, element by element. Every rank gets the result, identical to the bit.
#'
#' @section Types:
#' | `x`     | `sum` `prod` | `min` `max` | `avg`   | `land` `lor` `lxor` | `band` `bor` `bxor` |
#' |---------|--------------|-------------|---------|---------------------|---------------------|
#' | double  | double       | double      | double  | an error            | an error            |
#' | complex | complex      | an error    | complex | an error            | an error            |
#' | integer | integer      | integer     | double  | logical             | integer             |
#' | logical | integer      | integer     | double  | logical             | integer             |
#' | raw     | raw          | raw         | double  | raw, 0 or 1         | raw                 |
#'
#' The table has the type of the result. Factors, lists, data frames and character vectors
#' are errors. The message has the function that converts them.
#'
#' As in base R, a sum or product of integers or logicals that does not fit into an integer is `NA`,
#' with a warning, on every rank that gets it. A result that fits is correct, even if partial
#' results do not fit. Use `as.double(x)` for larger numbers. Raws are bytes, from 0 to 255, and
#' wrap around. In a ring of ranks in R and Python, a sum of R's integers matches a sum of `int64`
#' in Python.
#'
#' @section Names, dimensions and classes:
#' The dimensions, names, dimnames and class of `x` must be the same on all ranks. The result has
#' them, too. If they differ, the ranks get an error that shows both, so that no number is added to
#' a number with another name. `unname(x)` or `as.vector(x)`, on every rank, removes names. Other
#' attributes are dropped. In variable-length collectives, such as [ring_allgatherv()], the last
#' dimension and its names may differ.
#'
#' Objects of these classes, and of classes that inherit from them, keep their class:
#'
#' * `Date` and `POSIXct`: with `"min"`, `"max"` and `"avg"`, and in collectives without an
#'   operation. The time zone of the result is that of this rank's `x`.
#' * `difftime`: with `"sum"`, too. The units must be the same on all ranks.
#' * `table`: in reductions. For tables whose levels differ between ranks, use [ring_table()].
#'
#' Dates, times and durations that are stored as integers become doubles. Other operations on these
#' classes are errors, and so are other classes. `unclass(x)` passes the numbers without the class.
#'
#' @section Missing values:
#' In doubles, `NA` and `NaN` propagate through every `op`: an element of the result is `NA` or
#' `NaN` if any rank has `NA` or `NaN` there. In integers and logicals, `NA` cannot propagate,
#' because only R treats that number as missing. An `NA` in them is an error of the rank that has
#' it, before anything is sent: pass `as.double(x)` on every rank. `op = "avg"` computes in doubles,
#' so `NA` propagates for all types.
#'
#' @param comm A communicator, from [ring_init()].
#' @param x A double, integer, logical, complex or raw vector or array, of any length. It is never
#'   modified.
#' @param op The operation, a string: `"sum"`, `"prod"`, `"min"`, `"max"` or `"avg"` (also `"mean"`
#'   or `"average"`). For integers, logicals and raws also `"land"` (logical and: true on all
#'   ranks), `"lor"` (logical or: true on at least one rank), `"lxor"` (true on an odd number of
#'   ranks), `"band"`, `"bor"` and `"bxor"` (the same for every bit).
#' @param prescale,postscale Numbers: every element of `x` is multiplied by `prescale` before the
#'   reduction, and every element of the result by `postscale`. Results that are integers or raws
#'   are truncated towards zero.
#' @returns A vector or array with the shape and class of `x`. The section *Types* has its type.
#' @section Errors:
#' * `ring_error_invalid`: an argument is invalid. Nothing was sent, and the communicator stays
#'   usable.
#' * `ring_error_mismatch`: the ranks made different calls, or passed different types, lengths,
#'   shapes, names, classes or operations. A rank that only sends, such as the root of a
#'   [ring_broadcast()], does not wait for the others: it raises the error in its next call or in
#'   [ring_close()].
#' * `ring_error_peer_lost`, `ring_error_timeout` and `ring_error_aborted`: another rank died, did
#'   not make the call in time, or aborted.
#'
#' The last four break the communicator, and so does an interrupt. See [ring_error].
#' @seealso [ring_reduce()], for a result on one rank only; [ring_reduce_scatter()], for a part of
#'   the result on each rank; [ring_allreduce_group()], for many vectors; [ring_table()], to count
#'   values; [ring_allreduce_start()], for the background; [ring_broadcast()], [ring_allgather()]
#' @examples
#' comm <- ring_init()
#' ring_allreduce(comm, c(height = 1.5, width = 2))
#' ring_allreduce(comm, matrix(1:6, nrow = 2), op = "max")
#' ring_allreduce(comm, c(TRUE, FALSE), op = "lor")
#' ring_close(comm)
#' @export
ring_allreduce <- function(comm, x, op = "sum", prescale = 1, postscale = 1) {
  check_given(comm, x)
  .Call(C_collective_allreduce, comm, x, op, check_factors(prescale, postscale), FALSE)
}

#' Allreduce many vectors in one call
#'
#' Every rank passes a list of vectors. The number of vectors, their lengths, shapes and names are
#' the same on all ranks. The result is that of [ring_allreduce()] on each vector. Short vectors are
#' sent together, so one call for many vectors is much faster than a call for each.
#'
#' @inheritParams ring_allreduce
#' @param xs A list of vectors or arrays. Their types may differ. They are never modified.
#' @inheritSection ring_allreduce Types
#' @inheritSection ring_allreduce Names, dimensions and classes
#' @inheritSection ring_allreduce Missing values
#' @returns A list with the length and names of `xs`. Each element has the shape and class of its
#'   vector. The section *Types* has its type.
#' @inheritSection ring_allreduce Errors
#' @seealso [ring_allreduce()], [ring_allreduce_group_start()]
#' @examples
#' comm <- ring_init()
#' ring_allreduce_group(comm, list(weights = matrix(runif(6), 2), bias = runif(2)), op = "avg")
#' ring_close(comm)
#' @export
ring_allreduce_group <- function(comm, xs, op = "sum", prescale = 1, postscale = 1) {
  check_given(comm, xs)
  factors <- check_factors(prescale, postscale)
  .Call(C_collective_group, comm, group_kinds[["allreduce"]], xs, op, 0L, factors, FALSE)
}

#' Reduce vectors of all ranks to one rank
#'
#' Every rank passes a vector of the same type, length and shape. Rank `root` gets the result that
#' [ring_allreduce()] would return.
#'
#' @inheritParams ring_allreduce
#' @inheritSection ring_allreduce Types
#' @inheritSection ring_allreduce Names, dimensions and classes
#' @inheritSection ring_allreduce Missing values
#' @param root The rank that gets the result, a whole number from 0.
#' @returns On `root` a vector or array with the shape and class of `x`, on the other ranks `NULL`.
#'   The section *Types* has its type.
#' @inheritSection ring_allreduce Errors
#' @seealso [ring_allreduce()], for a result on every rank.
#' @examples
#' comm <- ring_init()
#' ring_reduce(comm, c(height = 1.5, width = 2))
#' ring_reduce(comm, 1:3, op = "avg", root = 0)
#' ring_close(comm)
#' @export
ring_reduce <- function(comm, x, op = "sum", root = 0, prescale = 1, postscale = 1) {
  check_given(comm, x)
  .Call(C_collective_reduce, comm, x, op, root, check_factors(prescale, postscale), FALSE)
}

#' Reduce-scatter: reduce vectors over all ranks and give each a part
#'
#' Every rank passes a vector of the same type, length and shape. The result of [ring_allreduce()]
#' is cut into equal parts, one for each rank, and rank r gets part r.
#'
#' @inheritParams ring_allreduce
#' @inheritSection ring_allreduce Types
#' @inheritSection ring_allreduce Names, dimensions and classes
#' @inheritSection ring_allreduce Missing values
#' @param x A double, integer, logical, complex or raw vector or array. It is never modified. An
#'   array is cut along the last dimension, a matrix into groups of columns. The last dimension of
#'   an array, or the length of a vector, must be a multiple of the number of ranks.
#' @returns The part of this rank, with the names, dimensions, dimnames and class that the part has
#'   in `x`. The section *Types* has its type.
#' @inheritSection ring_allreduce Errors
#' @seealso [ring_allreduce()], for the whole result on every rank; [ring_scatter()].
#' @examples
#' comm <- ring_init()
#' ring_reduce_scatter(comm, c(a = 1, b = 2))
#' ring_reduce_scatter(comm, matrix(1:6, nrow = 2), op = "max")
#' ring_close(comm)
#' @export
ring_reduce_scatter <- function(comm, x, op = "sum", prescale = 1, postscale = 1) {
  check_given(comm, x)
  .Call(C_collective_reduce_scatter, comm, x, op, check_factors(prescale, postscale), FALSE)
}

#' Reduce-scatter in parts of different lengths
#'
#' Every rank passes a vector of the same type, length and shape. The result of [ring_allreduce()]
#' is cut into parts of the lengths `counts`, and rank r gets part r.
#'
#' @inheritParams ring_reduce_scatter
#' @inheritSection ring_allreduce Types
#' @inheritSection ring_allreduce Names, dimensions and classes
#' @inheritSection ring_allreduce Missing values
#' @param x A double, integer, logical, complex or raw vector or array. It is never modified. An
#'   array is cut along the last dimension, a matrix into groups of columns.
#' @param counts A vector of whole numbers, one for each rank, the same on every rank: the number of
#'   elements of each part. For an array it is the size of the part in the last dimension, for a
#'   matrix the number of columns. The sum is the length, or the last dimension, of `x`.
#' @returns The part of this rank, with the names, dimensions, dimnames and class that the part has
#'   in `x`. The section *Types* has its type.
#' @inheritSection ring_allreduce Errors
#' @seealso [ring_reduce_scatter()], for equal parts; [ring_scatterv()].
#' @examples
#' comm <- ring_init()
#' ring_reduce_scatterv(comm, c(a = 1, b = 2), counts = 2)
#' ring_close(comm)
#' @export
ring_reduce_scatterv <- function(comm, x, counts, op = "sum", prescale = 1, postscale = 1) {
  check_given(comm, x, counts)
  factors <- check_factors(prescale, postscale)
  .Call(C_collective_reduce_scatterv, comm, x, check_counts(counts), op, factors, FALSE)
}

#' Scan: running totals over the ranks
#'
#' Every rank passes a vector of the same type, length and shape. With `ring_scan()` rank r gets the
#' vectors of ranks 0 to r combined, with `ring_exscan()` those of ranks 0 to r-1. The exclusive
#' sum of the numbers of rows, for example, is the offset of the rows of each rank.
#'
#' @inheritParams ring_allreduce
#' @param op The operation, as for [ring_allreduce()], without `"avg"`.
#' @inheritSection ring_allreduce Types
#' @inheritSection ring_allreduce Names, dimensions and classes
#' @inheritSection ring_allreduce Missing values
#' @returns A vector or array with the shape and class of `x`. The section *Types* has its type. On
#'   rank 0 `ring_exscan()` returns the identity of `op`, where MPI leaves the result undefined: 0
#'   for `"sum"`, 1 for `"prod"`, `Inf` for `"min"` and `-Inf` for `"max"` of doubles. Of integers
#'   it is the largest one for `"min"`, and `NA` for `"max"`.
#' @inheritSection ring_allreduce Errors
#' @seealso [ring_allreduce()], for the total on every rank.
#' @examples
#' comm <- ring_init()
#' ring_scan(comm, c(rows = 3L))
#' ring_exscan(comm, c(rows = 3L))
#' ring_close(comm)
#' @export
ring_scan <- function(comm, x, op = "sum") {
  check_given(comm, x)
  .Call(C_collective_scan, comm, x, op, FALSE, FALSE)
}

#' @rdname ring_scan
#' @export
ring_exscan <- function(comm, x, op = "sum") {
  check_given(comm, x)
  .Call(C_collective_scan, comm, x, op, TRUE, FALSE)
}

#' Broadcast the vector of one rank to all
#'
#' Every rank passes a vector of the same type, length, shape, names and class. Every rank gets the
#' values of root's vector. Missing values are kept. On `root` nothing is copied if `x` has no
#' attributes.
#'
#' @inheritParams ring_allreduce
#' @param x A double, integer, logical, complex or raw vector or array. It is never modified. On
#'   ranks other than `root` the values are ignored; type, length, shape, names and class must
#'   match.
#' @param root The rank whose values every rank gets, a whole number from 0.
#' @returns A vector or array with the type, dimensions, names, dimnames and class of `x`, and the
#'   values of root's vector.
#' @inheritSection ring_allreduce Errors
#' @seealso [ring_broadcast_object()], for any R value, whose type and attributes only `root` has.
#' @examples
#' comm <- ring_init()
#' weights <- if (ring_rank(comm) == 0) runif(3) else double(3)
#' ring_broadcast(comm, weights)
#' ring_close(comm)
#' @export
ring_broadcast <- function(comm, x, root = 0) {
  check_given(comm, x)
  .Call(C_collective_broadcast, comm, x, root, FALSE)
}

#' Barrier: wait for all ranks
#'
#' `ring_barrier()` returns when every rank has called it.
#'
#' @inheritParams ring_allreduce
#' @returns `NULL`, invisibly.
#' @inheritSection ring_allreduce Errors
#' @seealso [ring_barrier_start()]
#' @examples
#' comm <- ring_init()
#' ring_barrier(comm)
#' ring_close(comm)
#' @export
ring_barrier <- function(comm) {
  check_given(comm)
  invisible(.Call(C_collective_barrier, comm, FALSE))
}
