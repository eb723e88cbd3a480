# SPDX-License-Identifier: Apache-2.0

#' Send and receive a vector between two ranks
#'
#' `ring_send()` sends a vector to one other rank, and `ring_recv()` receives it there. Only these
#' two ranks make the calls. Both pass a vector of the same type and length. `ring_send()` may
#' return before the peer has received the vector. Missing values are kept.
#'
#' @details
#' Messages between two ranks arrive in the order in which they were sent. Messages and collectives,
#' such as [ring_allreduce()], must be in the same order on both ranks: if the sender makes a
#' collective call after `ring_send()`, the receiver makes it after `ring_recv()`. [ring_messages()]
#' has messages that have no place in that order, with tags, from any rank, and with starts.
#'
#' @inheritParams ring_allreduce
#' @param x A double, integer, logical, complex or raw vector or array. It is never modified.
#'   `ring_recv()` ignores its values.
#' @param peer The other rank, a whole number from 0.
#' @returns `ring_send()` returns `NULL`, invisibly. `ring_recv()` returns the values of the sender,
#'   in a vector with the type, dimensions, names, dimnames and class of the receiver's `x`.
#'   Dimensions, names and class of the sender's `x` are ignored.
#' @inheritSection ring_allreduce Errors
#' @seealso [ring_send_object()], for any R value; [ring_messages()], with tags, from any rank, and
#'   with starts.
#' @examples
#' comm <- ring_init()
#' # To the next rank of the ring; with one rank there is no peer.
#' if (ring_size(comm) > 1) {
#'   ring_send(comm, c(1, 2), peer = (ring_rank(comm) + 1) %% ring_size(comm))
#'   ring_recv(comm, double(2), peer = (ring_rank(comm) - 1) %% ring_size(comm))
#' }
#' ring_close(comm)
#' @export
ring_send <- function(comm, x, peer) {
  check_given(comm, x, peer)
  invisible(.Call(C_message_send, comm, x, peer))
}

#' @rdname ring_send
#' @export
ring_recv <- function(comm, x, peer) {
  check_given(comm, x, peer)
  .Call(C_message_recv, comm, x, peer)
}
