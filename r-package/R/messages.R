# SPDX-License-Identifier: Apache-2.0

#' Send and receive at any time, with tags
#'
#' `ring_messages()` opens messages between all ranks. All ranks call it. [ring_send()] has a place
#' in the order of collectives. Messages have none: they have tags, come from any rank, and any
#' number may be under way in both directions.
#'
#' A message matches the first receive that takes its source and its tag. Messages from one rank to
#' another are received in the order in which they were sent, as far as the receives take them. A
#' rank may send to itself.
#'
#' Short messages, up to 64 KiB, are sent before the peer receives; longer ones when it does. So
#' `ring_message_send()` may wait for its receive. Where both sides send first, use
#' `ring_message_sendrecv()` or `ring_message_send_start()`.
#'
#' `ring_messages_close()` waits for the transfers of this rank, then until all ranks have called
#' it.
#'
#' @inheritParams ring_rank
#' @param messages Messages, from `ring_messages()`.
#' @param x A double, integer, logical, complex or raw vector or array; any R value for
#'   `ring_message_send_object()`. Dimensions, names and class are not sent, and logicals arrive as
#'   integers.
#' @param peer The rank that receives.
#' @param tag A whole number from 0. For a receive or a probe `NULL` is any tag.
#' @param source The rank that sends; `NULL`: any rank.
#' @param send_tag The tag of `x`.
#' @param wait Whether to wait for a message.
#' @param return_status Whether to return the source and the tag of the message, too.
#' @param transfer A transfer, from `ring_message_send_start()` or `ring_message_recv_start()`.
#' @returns `ring_messages()` returns messages. `ring_message_recv()` and `ring_message_sendrecv()`
#'   return a vector; with `return_status` a list of `value`, `source`, `tag`, `dtype` and `count`.
#'   `ring_message_probe()` returns a list of the last four, without receiving the message, or
#'   `NULL` where there is none. `ring_transfer_wait()` returns the vector of a receive, and
#'   `ring_transfer_test()` whether a transfer is done. The other functions return `NULL`,
#'   invisibly.
#' @section Errors:
#' `ring_error_mismatch` where the other rank has closed its messages, and from
#' `ring_messages_close()` where a message to this rank was never received. Other failures are those
#' of [ring_allreduce()], and end the messages.
#' @seealso [ring_send()].
#' @examples
#' comm <- ring_init()
#' messages <- ring_messages(comm)
#' right <- (ring_rank(comm) + 1) %% ring_size(comm)
#' left <- (ring_rank(comm) - 1) %% ring_size(comm)
#' ring_message_sendrecv(messages, c(1, 2), peer = right, source = left)
#' ring_message_send_object(messages, list(rate = 0.1), peer = right, tag = 3)
#' ring_message_probe(messages, tag = 3)$source
#' ring_message_recv_object(messages, tag = 3)
#' ring_messages_close(messages)
#' ring_close(comm)
#' @export
ring_messages <- function(comm) {
  check_given(comm)
  structure(.Call(C_messages_open, comm), comm = comm)
}

# The communicator of messages.
messages_comm <- function(messages) {
  comm <- attr(messages, "comm")
  if (inherits(comm, "ring_comm")) return(comm)
  check_stop("`messages` must be messages, as ring_messages() returns them in this process")
}

# A rank below `most` or a tag for the core, where -1 is any.
check_any <- function(x, name, most = Inf) {
  if (is.null(x)) return(-1L)
  if (!is_whole(x)) {
    check_stop("`", name, "` must be one whole number or NULL, not ", describe(x))
  }
  if (x < 0) check_stop("`", name, "` is ", x, ": it must be 0 or more, or NULL for any")
  if (x >= most) check_stop("`", name, "` is ", x, ": it must be less than ", most)
  as.integer(x)
}

#' @rdname ring_messages
#' @export
ring_message_send <- function(messages, x, peer, tag = 0) {
  check_given(messages, x, peer)
  peer <- check_whole(peer, "peer", least = 0)
  tag <- check_whole(tag, "tag", least = 0)
  invisible(.Call(C_messages_send, messages, x, peer, tag, FALSE))
}

#' @rdname ring_messages
#' @export
ring_message_send_start <- function(messages, x, peer, tag = 0) {
  check_given(messages, x, peer)
  peer <- check_whole(peer, "peer", least = 0)
  tag <- check_whole(tag, "tag", least = 0)
  .Call(C_messages_send, messages, x, peer, tag, TRUE)
}

#' @rdname ring_messages
#' @export
ring_message_recv_start <- function(messages, source = NULL, tag = NULL) {
  check_given(messages)
  source <- check_any(source, "source")
  tag <- check_any(tag, "tag")
  .Call(C_messages_recv, messages, source, tag)
}

#' @rdname ring_messages
#' @export
ring_message_recv <- function(messages, source = NULL, tag = NULL, return_status = FALSE) {
  check_given(messages)
  source <- check_any(source, "source")
  tag <- check_any(tag, "tag")
  return_status <- check_flag(return_status, "return_status")
  transfer <- .Call(C_messages_recv, messages, source, tag)
  value <- .Call(C_transfer_wait, transfer)
  if (return_status) c(list(value = value), .Call(C_transfer_info, transfer)) else value
}

#' @rdname ring_messages
#' @export
ring_message_sendrecv <- function(messages, x, peer, send_tag = 0, source = NULL, tag = NULL) {
  check_given(messages, x, peer)
  peer <- check_whole(peer, "peer", least = 0)
  send_tag <- check_whole(send_tag, "send_tag", least = 0)
  source <- check_any(source, "source", most = ring_size(messages_comm(messages)))
  tag <- check_any(tag, "tag")
  # The send comes first: it refuses a bad `x`, and then there is no receive.
  sent <- .Call(C_messages_send, messages, x, peer, send_tag, TRUE)
  value <- .Call(C_transfer_wait, .Call(C_messages_recv, messages, source, tag))
  .Call(C_transfer_wait, sent)
  value
}

#' @rdname ring_messages
#' @export
ring_message_probe <- function(messages, source = NULL, tag = NULL, wait = TRUE) {
  check_given(messages)
  source <- check_any(source, "source")
  tag <- check_any(tag, "tag")
  .Call(C_messages_probe, messages, source, tag, check_flag(wait, "wait"))
}

#' @rdname ring_messages
#' @export
ring_message_send_object <- function(messages, x, peer, tag = 0) {
  check_given(messages, x, peer)
  call <- sys.call()
  peer <- check_whole(peer, "peer", least = 0)
  tag <- check_whole(tag, "tag", least = 0)
  check_object_comm(messages_comm(messages), call)
  mine <- codec_pack(list(x), 1L, call)
  .Call(C_messages_send, messages, mine$bytes, peer, tag, FALSE)
  if (!is.null(mine$failure)) stop(mine$failure)
  invisible(NULL)
}

#' @rdname ring_messages
#' @export
ring_message_recv_object <- function(messages, source = NULL, tag = NULL) {
  check_given(messages)
  call <- sys.call()
  source <- check_any(source, "source")
  tag <- check_any(tag, "tag")
  check_object_comm(messages_comm(messages), call)
  transfer <- .Call(C_messages_recv, messages, source, tag)
  bytes <- .Call(C_transfer_wait, transfer)
  codec_unpack(bytes, .Call(C_transfer_info, transfer)$source, call)[[1L]]
}

#' @rdname ring_messages
#' @export
ring_transfer_wait <- function(transfer) {
  check_given(transfer)
  result <- .Call(C_transfer_wait, transfer)
  if (is.null(result)) invisible(result) else result
}

#' @rdname ring_messages
#' @export
ring_transfer_test <- function(transfer) {
  check_given(transfer)
  .Call(C_transfer_test, transfer)
}

#' @rdname ring_messages
#' @export
ring_messages_close <- function(messages) {
  check_given(messages)
  invisible(.Call(C_messages_close, messages))
}
