# SPDX-License-Identifier: Apache-2.0

#' Send and receive a vector between two ranks
#'
#' `ring_send()` sends a vector to one other rank, which receives it by `ring_recv()` with a vector
#' of the same type and length. Only the two ranks call. Messages between them arrive in order, and
#' `ring_send()` may return before the peer has received. Missing values are kept.
#'
#' Both ranks must have the same order of messages and of collectives such as [ring_allreduce()]: no
#' collective may lie between `ring_send()` on the sender and `ring_recv()` on the receiver.
#'
#' @inheritParams ring_allreduce
#' @param x A double, integer, logical, complex or raw vector or array. It is never modified. `ring_recv()`
#'   uses its type, length and shape only.
#' @param peer The other rank.
#' @returns `ring_send()` returns `NULL`, invisibly. `ring_recv()` returns the values that the peer
#'   sent, as a vector of the type, dimensions, names, dimnames and class of its own `x`. The
#'   sender's dimensions, names and class are not compared with them.
#' @inheritSection ring_allreduce Errors
#' @examples
#' comm <- ring_init()
#' # Round the ring: this works for two ranks and more.
#' if (ring_size(comm) > 1) {
#'   ring_send(comm, c(1, 2), peer = (ring_rank(comm) + 1) %% ring_size(comm))
#'   ring_recv(comm, double(2), peer = (ring_rank(comm) - 1) %% ring_size(comm))
#' }
#' ring_close(comm)
#' @export
ring_send <- function(comm, x, peer) {
  invisible(.Call(C_message_send, comm, x, peer, FALSE))
}

#' @rdname ring_send
#' @export
ring_recv <- function(comm, x, peer) {
  .Call(C_message_recv, comm, x, peer, FALSE)
}
