# SPDX-License-Identifier: Apache-2.0
#
# The nonblocking collectives. They call the same C functions as the blocking ones, with TRUE for
# start.

#' Asynchronous (nonblocking) collectives
#'
#' Each function takes the arguments of the function without `_start`, checks them in the same way,
#' and returns a request while the collective runs. [ring_wait()] returns the result.
#'
#' All ranks start the same calls in the same order. The requests of a communicator run one at a
#' time, in the order of their starts. Blocking calls, such as [ring_allreduce()] and
#' [ring_close()], are part of that order: they run when all requests that were started before are
#' done. Requests may be waited for in any order.
#'
#' The vectors that were passed may be changed or dropped: R copies what a request still needs.
#'
#' `ring_allgatherv_start()`, `ring_gatherv_start()` and `ring_alltoallv_start()` block until all
#' ranks have called them, because the ranks first exchange their lengths. The rest of the call runs
#' in the background.
#'
#' @inheritParams ring_allreduce
#' @param x,xs,counts As for the function without `_start`.
#' @param root,peer A rank, as for the function without `_start`.
#' @returns A request, of class `ring_request`.
#' @section Errors:
#' `ring_error_invalid` for an invalid argument. [ring_wait()] raises later errors. On a broken
#' communicator, the error that broke it. See [ring_error].
#' @seealso [ring_wait()]; [ring_allreduce()] and the other blocking functions, for arguments and
#'   results.
#' @examples
#' comm <- ring_init()
#' layers <- list(runif(1000), runif(10))
#' requests <- lapply(layers, function(layer) ring_allreduce_start(comm, layer, op = "avg"))
#' # ... something else, then:
#' layers <- lapply(requests, ring_wait)
#' ring_close(comm)
#' @name ring_start
NULL

#' @rdname ring_start
#' @export
ring_allreduce_start <- function(comm, x, op = "sum") {
  .Call(C_collective_allreduce, comm, x, op, TRUE)
}

#' @rdname ring_start
#' @export
ring_allreduce_group_start <- function(comm, xs, op = "sum") {
  .Call(C_collective_allreduce_group, comm, xs, op, TRUE)
}

#' @rdname ring_start
#' @export
ring_reduce_start <- function(comm, x, op = "sum", root = 0) {
  .Call(C_collective_reduce, comm, x, op, root, TRUE)
}

#' @rdname ring_start
#' @export
ring_reduce_scatter_start <- function(comm, x, op = "sum") {
  .Call(C_collective_reduce_scatter, comm, x, op, TRUE)
}

#' @rdname ring_start
#' @export
ring_broadcast_start <- function(comm, x, root = 0) {
  .Call(C_collective_broadcast, comm, x, root, TRUE)
}

#' @rdname ring_start
#' @export
ring_allgather_start <- function(comm, x) .Call(C_parts_allgather, comm, x, TRUE)

#' @rdname ring_start
#' @export
ring_allgatherv_start <- function(comm, x) {
  .Call(C_parts_allgatherv, comm, x, .Call(C_parts_extents, comm, x, 0L), TRUE)
}

#' @rdname ring_start
#' @export
ring_gather_start <- function(comm, x, root = 0) {
  .Call(C_parts_gather, comm, x, root, TRUE)
}

#' @rdname ring_start
#' @export
ring_gatherv_start <- function(comm, x, root = 0) {
  .Call(C_parts_gatherv, comm, x, .Call(C_parts_extents, comm, x, root), root, TRUE)
}

#' @rdname ring_start
#' @export
ring_scatter_start <- function(comm, x, root = 0) {
  .Call(C_parts_scatter, comm, x, root, TRUE)
}

#' @rdname ring_start
#' @export
ring_scatterv_start <- function(comm, x, counts, root = 0) {
  .Call(C_parts_scatterv, comm, x, check_counts(counts), root, TRUE)
}

#' @rdname ring_start
#' @export
ring_alltoall_start <- function(comm, x) .Call(C_parts_alltoall, comm, x, TRUE)

#' @rdname ring_start
#' @export
ring_alltoallv_start <- function(comm, x, counts) {
  sends <- check_counts(counts)
  .Call(C_parts_alltoallv, comm, x, sends, .Call(C_parts_exchange, comm, x, sends), TRUE)
}

#' @rdname ring_start
#' @export
ring_barrier_start <- function(comm) .Call(C_collective_barrier, comm, TRUE)

#' @rdname ring_start
#' @export
ring_send_start <- function(comm, x, peer) {
  .Call(C_message_send, comm, x, peer, TRUE)
}

#' @rdname ring_start
#' @export
ring_recv_start <- function(comm, x, peer) {
  .Call(C_message_recv, comm, x, peer, TRUE)
}
