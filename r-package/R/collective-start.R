# SPDX-License-Identifier: Apache-2.0
#
# The nonblocking collectives. They call the same C functions as the blocking ones, with TRUE for
# start.

#' Asynchronous (nonblocking) collectives
#'
#' Each function starts the collective of its name without `_start`, and returns a request at once.
#' The collective runs in the background. [ring_wait()] returns its result. Arguments and their
#' checks are those of the blocking function.
#'
#' @details
#' All ranks start the same requests in the same order. The requests of a communicator run one at a
#' time, in the order of their starts. Blocking calls, such as [ring_allreduce()] and
#' [ring_close()], are part of that order: such a call runs when all earlier requests are complete.
#' [ring_wait()] may be called on requests in any order.
#'
#' [ring_send()] and [ring_recv()] have no `_start`: two ranks that both start a receive first would
#' wait for each other in that order. [ring_message_send_start()] and [ring_message_recv_start()]
#' start sends and receives, which have no place in the order.
#'
#' The vectors that were passed to a request may be modified or removed afterwards: R makes a copy
#' for the request.
#'
#' `ring_allgatherv_start()`, `ring_gatherv_start()` and `ring_alltoallv_start()` block until all
#' ranks have called them, because the ranks exchange their lengths first. The rest of the call runs
#' in the background.
#'
#' @inheritParams ring_allreduce
#' @param x,xs,counts As for the blocking function, such as [ring_allreduce()],
#'   [ring_allreduce_group()] and [ring_scatterv()].
#' @param prescale,postscale As for [ring_allreduce()].
#' @param return_counts As for [ring_alltoallv()].
#' @param root A rank, a whole number from 0, as for the blocking function.
#' @returns A request, an object of class `ring_request`.
#' @section Errors:
#' `ring_error_invalid` for an invalid argument. On a broken communicator, the error that broke it.
#' [ring_wait()] raises all later errors. See [ring_error].
#' @seealso [ring_wait()] and [ring_test()], for requests; [ring_allreduce()] and the other blocking
#'   functions, for arguments and results.
#' @examples
#' comm <- ring_init()
#' layers <- list(runif(1000), runif(10))
#' requests <- lapply(layers, function(layer) ring_allreduce_start(comm, layer, op = "avg"))
#' # R can do other work here.
#' layers <- lapply(requests, ring_wait)
#' ring_close(comm)
#' @name ring_start
NULL

#' @rdname ring_start
#' @export
ring_allreduce_start <- function(comm, x, op = "sum", prescale = 1, postscale = 1) {
  check_given(comm, x)
  .Call(C_collective_allreduce, comm, x, op, check_factors(prescale, postscale), TRUE)
}

#' @rdname ring_start
#' @export
ring_allreduce_group_start <- function(comm, xs, op = "sum", prescale = 1, postscale = 1) {
  check_given(comm, xs)
  factors <- check_factors(prescale, postscale)
  .Call(C_collective_group, comm, group_kinds[["allreduce"]], xs, op, 0L, factors, TRUE)
}

#' @rdname ring_start
#' @export
ring_reduce_scatter_group_start <- function(comm, # nolint: object_length_linter.
                                            xs, op = "sum", prescale = 1, postscale = 1) {
  check_given(comm, xs)
  factors <- check_factors(prescale, postscale)
  .Call(C_collective_group, comm, group_kinds[["reduce_scatter"]], xs, op, 0L, factors, TRUE)
}

#' @rdname ring_start
#' @export
ring_allgather_group_start <- function(comm, xs) {
  check_given(comm, xs)
  .Call(C_collective_group, comm, group_kinds[["allgather"]], xs, NULL, 0L, NULL, TRUE)
}

#' @rdname ring_start
#' @export
ring_broadcast_group_start <- function(comm, xs, root = 0) {
  check_given(comm, xs)
  .Call(C_collective_group, comm, group_kinds[["broadcast"]], xs, NULL, root, NULL, TRUE)
}

#' @rdname ring_start
#' @export
ring_reduce_start <- function(comm, x, op = "sum", root = 0, prescale = 1, postscale = 1) {
  check_given(comm, x)
  .Call(C_collective_reduce, comm, x, op, root, check_factors(prescale, postscale), TRUE)
}

#' @rdname ring_start
#' @export
ring_reduce_scatter_start <- function(comm, x, op = "sum", prescale = 1, postscale = 1) {
  check_given(comm, x)
  .Call(C_collective_reduce_scatter, comm, x, op, check_factors(prescale, postscale), TRUE)
}

#' @rdname ring_start
#' @export
ring_reduce_scatterv_start <- function(comm, x, counts, op = "sum", prescale = 1, postscale = 1) {
  check_given(comm, x, counts)
  factors <- check_factors(prescale, postscale)
  .Call(C_collective_reduce_scatterv, comm, x, check_counts(counts), op, factors, TRUE)
}

#' @rdname ring_start
#' @export
ring_scan_start <- function(comm, x, op = "sum") {
  check_given(comm, x)
  .Call(C_collective_scan, comm, x, op, FALSE, TRUE)
}

#' @rdname ring_start
#' @export
ring_exscan_start <- function(comm, x, op = "sum") {
  check_given(comm, x)
  .Call(C_collective_scan, comm, x, op, TRUE, TRUE)
}

#' @rdname ring_start
#' @export
ring_broadcast_start <- function(comm, x, root = 0) {
  check_given(comm, x)
  .Call(C_collective_broadcast, comm, x, root, TRUE)
}

#' @rdname ring_start
#' @export
ring_allgather_start <- function(comm, x) {
  check_given(comm, x)
  .Call(C_parts_allgather, comm, x, TRUE)
}

#' @rdname ring_start
#' @export
ring_allgatherv_start <- function(comm, x) {
  check_given(comm, x)
  .Call(C_parts_allgatherv, comm, x, .Call(C_parts_extents, comm, x, 0L), TRUE)
}

#' @rdname ring_start
#' @export
ring_gather_start <- function(comm, x, root = 0) {
  check_given(comm, x)
  .Call(C_parts_gather, comm, x, root, TRUE)
}

#' @rdname ring_start
#' @export
ring_gatherv_start <- function(comm, x, root = 0) {
  check_given(comm, x)
  .Call(C_parts_gatherv, comm, x, .Call(C_parts_extents, comm, x, root), root, TRUE)
}

#' @rdname ring_start
#' @export
ring_scatter_start <- function(comm, x, root = 0) {
  check_given(comm, x)
  .Call(C_parts_scatter, comm, x, root, TRUE)
}

#' @rdname ring_start
#' @export
ring_scatterv_start <- function(comm, x, counts, root = 0) {
  check_given(comm, x, counts)
  .Call(C_parts_scatterv, comm, x, check_counts(counts), root, TRUE)
}

#' @rdname ring_start
#' @export
ring_alltoall_start <- function(comm, x) {
  check_given(comm, x)
  .Call(C_parts_alltoall, comm, x, TRUE)
}

#' @rdname ring_start
#' @export
ring_alltoallv_start <- function(comm, x, counts, return_counts = FALSE) {
  check_given(comm, x, counts)
  alltoallv(comm, x, counts, return_counts, start = TRUE)
}

#' @rdname ring_start
#' @export
ring_barrier_start <- function(comm) {
  check_given(comm)
  .Call(C_collective_barrier, comm, TRUE)
}
