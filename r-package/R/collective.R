# SPDX-License-Identifier: Apache-2.0

#' Allreduce: sum (or min, max, ...) vectors over all ranks
#'
#' Every rank passes a vector of the same type, length and shape. Every rank gets `op` over the
#' vectors of all ranks, element by element. The result is identical to the bit on every rank.
#'
#' @section Types:
#' | `x`     | `"sum"` `"prod"` `"min"` `"max"` | `"avg"` | `"land"` `"lor"` `"lxor"` | `"band"` `"bor"` `"bxor"` |
#' |---------|----------------------------------|---------|---------------------------|---------------------------|
#' | double  | double                           | double  | an error                  | an error                  |
#' | complex | complex; no min and max          | complex | an error                  | an error                  |
#' | integer | integer                          | double  | logical                   | integer                   |
#' | logical | integer                          | double  | logical                   | integer                   |
#' | raw     | raw                              | double  | raw, 0 or 1               | raw                       |
#'
#' Factors, lists, data frames and character vectors are errors that say what to do
#' instead.
#'
#' As in base R, a sum or product of integers or logicals that does not fit into an integer is `NA`,
#' with a warning, on every rank that gets it. A result that fits is right, even if partial results
#' do not fit. Use `as.double(x)` for larger numbers. Raws are bytes, from 0 to 255, and wrap
#' around. (Where ranks run Python, a sum of integers matches its `int64`, which does not overflow
#' there.)
#'
#' @section Names, dimensions and classes:
#' The result has the dimensions, names, dimnames and class of `x`, which are the same on all ranks.
#' Ranks whose names or levels differ get an error that shows both, so that no number is added to a
#' number of another name. `unname(x)` or `as.vector(x)`, on every rank, drops them. Other
#' attributes are dropped. (In variable-length collectives, such as [ring_allgatherv()], the last
#' dimension and its names may differ.)
#'
#' Objects of these classes, and of classes that inherit from them, keep their class:
#'
#' * `Date` and `POSIXct`, with `"min"`, `"max"` and `"avg"`, and in collectives that do not
#'   compute. The time zone is that of this rank's `x`.
#' * `difftime`, with `"sum"`, too. Its units are the same on all ranks.
#' * `table`, in reductions. [ring_table()] makes one of all ranks whose levels differ.
#'
#' Dates, times and durations that are stored as integers become doubles. Other operations on them,
#' and other classes, are errors. `unclass(x)` passes the numbers alone.
#'
#' @section Missing values:
#' In doubles `NA` and `NaN` propagate through every `op`: the result is `NA` or `NaN` wherever any
#' rank has one. Integers and logicals cannot propagate `NA`, because only R reads that number as
#' missing. An `NA` in them is an error, on the rank that has it and before anything is sent. Use
#' `as.double(x)`, on every rank. `op = "avg"` computes in doubles, so `NA` propagates for all
#' types.
#'
#' @param comm A communicator, from [ring_init()].
#' @param x A double, integer, logical, complex or raw vector or array. It is never modified.
#' @param op `"sum"`, `"prod"`, `"min"`, `"max"` or `"avg"` (also `"mean"` or `"average"`), or for
#'   integers, logicals and raws `"land"` (is it true on all ranks?), `"lor"` (on any?), `"lxor"` (on
#'   an odd number of them?), `"band"`, `"bor"` or `"bxor"` (the same for every bit).
#' @returns A vector or array of the shape and class of `x`.
#' @section Errors:
#' `ring_error_invalid` for an invalid argument, before anything is sent; `ring_error_mismatch` when
#' ranks make different calls, or pass different types, lengths, shapes, names, classes or ops;
#' `ring_error_peer_lost`, `ring_error_timeout` and `ring_error_aborted` when a rank does not
#' answer. See [ring_error]. An interrupt ends the call and breaks the communicator.
#' @seealso [ring_table()], to count; [ring_reduce()] and [ring_reduce_scatter()], where not every
#'   rank gets everything; [ring_broadcast()], [ring_allgather()]
#' @examples
#' comm <- ring_init()
#' ring_allreduce(comm, c(height = 1.5, width = 2))
#' ring_allreduce(comm, matrix(1:6, nrow = 2), op = "max")
#' ring_allreduce(comm, c(TRUE, FALSE), op = "lor")
#' ring_close(comm)
#' @export
ring_allreduce <- function(comm, x, op = "sum") .Call(C_collective_allreduce, comm, x, op, FALSE)

#' Allreduce many vectors in one call
#'
#' Every rank passes a list of vectors, of the same number, lengths, shapes and names. The result is
#' that of one [ring_allreduce()] of each vector. Short vectors are sent together, so many of them
#' take far less time than as many calls.
#'
#' @inheritParams ring_allreduce
#' @param xs A list of vectors or arrays, all of the same type: double, integer or logical, or raw.
#' @inheritSection ring_allreduce Types
#' @inheritSection ring_allreduce Names, dimensions and classes
#' @inheritSection ring_allreduce Missing values
#' @returns A list of the length and names of `xs`; each element has the shape of its vector.
#' @inheritSection ring_allreduce Errors
#' @examples
#' comm <- ring_init()
#' ring_allreduce_group(comm, list(weights = matrix(runif(6), 2), bias = runif(2)), op = "avg")
#' ring_close(comm)
#' @export
ring_allreduce_group <- function(comm, xs, op = "sum") {
  .Call(C_collective_allreduce_group, comm, xs, op, FALSE)
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
#' @param root The rank that gets the result.
#' @returns On `root` a vector or array of the shape of `x`, `NULL` on the other ranks.
#' @inheritSection ring_allreduce Errors
#' @examples
#' comm <- ring_init()
#' ring_reduce(comm, c(height = 1.5, width = 2))
#' ring_reduce(comm, 1:3, op = "avg", root = 0)
#' ring_close(comm)
#' @export
ring_reduce <- function(comm, x, op = "sum", root = 0) {
  .Call(C_collective_reduce, comm, x, op, root, FALSE)
}

#' Reduce-scatter: reduce vectors over all ranks and give each a part
#'
#' Every rank passes a vector of the same type, length and shape. What [ring_allreduce()] would give
#' is cut into equal parts, one for each rank, and rank r gets part r.
#'
#' @inheritParams ring_allreduce
#' @inheritSection ring_allreduce Types
#' @inheritSection ring_allreduce Names, dimensions and classes
#' @inheritSection ring_allreduce Missing values
#' @param x A double, integer, logical, complex or raw vector or array. It is never modified. Arrays are cut
#'   along the last dimension (a matrix: into groups of columns), which is a multiple of the size;
#'   of a plain vector the length is one.
#' @returns This rank's part, with its names, dimensions and dimnames.
#' @inheritSection ring_allreduce Errors
#' @examples
#' comm <- ring_init()
#' ring_reduce_scatter(comm, c(a = 1, b = 2))
#' ring_reduce_scatter(comm, matrix(1:6, nrow = 2), op = "max")
#' ring_close(comm)
#' @export
ring_reduce_scatter <- function(comm, x, op = "sum") {
  .Call(C_collective_reduce_scatter, comm, x, op, FALSE)
}

#' Broadcast the vector of one rank to all
#'
#' Every rank passes a vector of the same type, length, shape, names and class, and gets the values
#' of root's vector. Missing values are kept. Nothing is copied on `root` if `x` has no attributes.
#' ([ring_broadcast_object()] takes names and all other attributes from `root` alone.)
#'
#' @inheritParams ring_allreduce
#' @param x A double, integer, logical, complex or raw vector or array. It is never modified; on ranks other
#'   than `root` all but its values count.
#' @param root The rank whose values every rank gets.
#' @returns A vector of the type, dimensions, names, dimnames and class of `x`, with the values of
#'   root's vector.
#' @inheritSection ring_allreduce Errors
#' @examples
#' comm <- ring_init()
#' weights <- if (ring_rank(comm) == 0) runif(3) else double(3)
#' ring_broadcast(comm, weights)
#' ring_close(comm)
#' @export
ring_broadcast <- function(comm, x, root = 0) .Call(C_collective_broadcast, comm, x, root, FALSE)

#' Barrier: wait for all ranks
#'
#' Returns when every rank has called it.
#'
#' @inheritParams ring_allreduce
#' @returns `NULL`, invisibly.
#' @inheritSection ring_allreduce Errors
#' @examples
#' comm <- ring_init()
#' ring_barrier(comm)
#' ring_close(comm)
#' @export
ring_barrier <- function(comm) invisible(.Call(C_collective_barrier, comm, FALSE))
