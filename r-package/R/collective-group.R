# SPDX-License-Identifier: Apache-2.0

# As ring_group_kind of the core.
group_kinds <- c(allreduce = 0L, allgather = 1L, reduce_scatter = 2L, broadcast = 3L)

#' Reduce-scatter, allgather or broadcast many vectors in one call
#'
#' Every rank passes a list of vectors. The number of vectors, their types, lengths, shapes and
#' names are the same on all ranks. The result is that of [ring_reduce_scatter()],
#' [ring_allgather()] or [ring_broadcast()] on each vector. Short vectors of one type are sent
#' together, so one call for many vectors is faster than a call for each.
#'
#' @inheritParams ring_allreduce
#' @param xs A list of vectors or arrays. Their types may differ. They are never modified.
#' @param root The rank whose values every rank gets, a whole number from 0.
#' @returns A list with the length and names of `xs`. Each element is what the function for one
#'   vector returns.
#' @inheritSection ring_allreduce Errors
#' @seealso [ring_allreduce_group()]
#' @examples
#' comm <- ring_init()
#' ring_allgather_group(comm, list(rows = 10L, loss = 0.5))
#' ring_broadcast_group(comm, list(weights = matrix(runif(6), 2), bias = runif(2)))
#' ring_close(comm)
#' @export
ring_reduce_scatter_group <- function(comm, xs, op = "sum", prescale = 1, postscale = 1) {
  check_given(comm, xs)
  factors <- check_factors(prescale, postscale)
  .Call(C_collective_group, comm, group_kinds[["reduce_scatter"]], xs, op, 0L, factors, FALSE)
}

#' @rdname ring_reduce_scatter_group
#' @export
ring_allgather_group <- function(comm, xs) {
  check_given(comm, xs)
  .Call(C_collective_group, comm, group_kinds[["allgather"]], xs, NULL, 0L, NULL, FALSE)
}

#' @rdname ring_reduce_scatter_group
#' @export
ring_broadcast_group <- function(comm, xs, root = 0) {
  check_given(comm, xs)
  .Call(C_collective_group, comm, group_kinds[["broadcast"]], xs, NULL, root, NULL, FALSE)
}
