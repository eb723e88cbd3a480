# SPDX-License-Identifier: Apache-2.0

#' Rank, size and hosts of a communicator
#'
#' `ring_rank()` returns this process's place in the ring, from 0, and `ring_size()` the number of
#' ranks. `ring_local_rank()` and `ring_local_size()` return the same among the ranks on this host.
#' All work on a closed or broken communicator, too.
#'
#' @param comm A communicator, from [ring_init()].
#' @returns An integer. `ring_hosts()` returns a character vector with the host of every rank, in
#'   rank order, as the address list names it.
#' @seealso [ring_counters()] for the bytes that it has sent and received.
#' @examples
#' comm <- ring_init()
#' ring_rank(comm)
#' ring_size(comm)
#' ring_hosts(comm)
#' ring_close(comm)
#' @export
ring_rank <- function(comm) .Call(C_comm_rank, comm)

#' @rdname ring_rank
#' @export
ring_size <- function(comm) .Call(C_comm_size, comm)

#' @rdname ring_rank
#' @export
ring_local_rank <- function(comm) .Call(C_comm_local_rank, comm)

#' @rdname ring_rank
#' @export
ring_local_size <- function(comm) .Call(C_comm_local_size, comm)

#' @rdname ring_rank
#' @export
ring_hosts <- function(comm) .Call(C_comm_hosts, comm)

#' Counters: bytes and messages that a communicator has moved
#'
#' Bytes sent and received are those of links: headers and payload, without the handshakes that open
#' links. Bytes shared are the payload that this rank has passed to ranks of its host through shared
#' memory. Each byte counts once, however many ranks read it.
#'
#' @inheritParams ring_rank
#' @param peer A rank, for the link to it alone, where `calls`, `bytes_shared` and `wait_ns` are 0.
#'   `NULL`: all links together.
#' @returns A list of numbers: `calls`, `bytes_sent`, `bytes_received`, `bytes_shared`,
#'   `messages_sent`, `messages_received`, and `wait_ns`, the nanoseconds in which the rank could
#'   only wait for other ranks.
#' @examples
#' comm <- ring_init()
#' ring_barrier(comm)
#' ring_counters(comm)$calls
#' ring_close(comm)
#' @export
ring_counters <- function(comm, peer = NULL) {
  if (!is.null(peer)) peer <- check_whole(peer, "peer", least = 0)
  .Call(C_comm_counters, comm, peer)
}

#' Close or abort a communicator
#'
#' `ring_close()` waits until every rank has called it, and then, for 5 seconds at most, until the
#' last bytes of this rank have arrived. `ring_abort()` ends the communicator at once, from this
#' rank alone: the current or next call of the other ranks fails with `ring_error_aborted`. A second
#' call of either does nothing.
#'
#' @inheritParams ring_rank
#' @param reason A string that becomes part of the error on the other ranks.
#' @returns `NULL`, invisibly.
#' @section Errors:
#' `ring_close()` waits for other ranks, so it can fail with `ring_error_peer_lost`,
#' `ring_error_timeout`, `ring_error_mismatch` or `ring_error_aborted`. See [ring_error].
#'
#' `ring_abort()` fails with `ring_error_busy` in a handler of a condition that a call on `comm`
#' signals, such as `ring_stall`. Leave the call instead, as `tryCatch(ring_stall = )` does: that
#' ends it. In a handler during [ring_wait()] `ring_abort()` works, and the wait ends when the
#' handler returns.
#' @examples
#' comm <- ring_init()
#' ring_close(comm)
#' comm
#' @export
ring_close <- function(comm) invisible(.Call(C_comm_close, comm, 0))

#' @rdname ring_close
#' @export
ring_abort <- function(comm, reason = NULL) {
  invisible(.Call(C_comm_abort, comm, check_string(reason, "reason")))
}

#' @export
format.ring_comm <- function(x, ...) {
  rank <- ring_rank(x)
  size <- ring_size(x)
  secured <- if (.Call(C_comm_authenticated, x)) "authenticated" else "NOT authenticated (no token)"
  if (.Call(C_comm_encrypted, x)) secured <- c(secured, "encrypted")
  state <- c(if (size > 1L) secured, .Call(C_comm_state, x))
  host <- ring_hosts(x)[[rank + 1L]]
  sprintf("<ring_comm> rank %d of %d on %s, %s", rank, size, host, paste(state, collapse = ", "))
}

#' @export
print.ring_comm <- function(x, ...) {
  cat(format(x), "\n", sep = "")
  invisible(x)
}

# The number of communicators of this process that are not collected yet.
comm_live <- function() .Call(C_comm_live)
