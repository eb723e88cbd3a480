# SPDX-License-Identifier: Apache-2.0

#' Rank, size and hosts of a communicator
#'
#' `ring_rank()` returns the rank of this process, from 0. `ring_size()` returns the number of
#' ranks. `ring_local_rank()` and `ring_local_size()` count only the ranks on this host.
#' `ring_hosts()` returns the hosts of all ranks. The functions send nothing, and work on a closed
#' or broken communicator, too.
#'
#' @param comm A communicator, from [ring_init()].
#' @returns `ring_hosts()` returns a character vector with the host of every rank, in rank order, as
#'   in the address list. The other functions return one integer.
#' @seealso [ring_counters()], for the bytes that a communicator has sent and received;
#'   [ring_init()].
#' @examples
#' comm <- ring_init()
#' ring_rank(comm)
#' ring_size(comm)
#' ring_hosts(comm)
#' ring_close(comm)
#' @export
ring_rank <- function(comm) {
  check_given(comm)
  .Call(C_comm_rank, comm)
}

#' @rdname ring_rank
#' @export
ring_size <- function(comm) {
  check_given(comm)
  .Call(C_comm_size, comm)
}

#' @rdname ring_rank
#' @export
ring_local_rank <- function(comm) {
  check_given(comm)
  .Call(C_comm_local_rank, comm)
}

#' @rdname ring_rank
#' @export
ring_local_size <- function(comm) {
  check_given(comm)
  .Call(C_comm_local_size, comm)
}

#' @rdname ring_rank
#' @export
ring_hosts <- function(comm) {
  check_given(comm)
  .Call(C_comm_hosts, comm)
}

#' Counters: bytes and messages that a communicator has sent and received
#'
#' `ring_counters()` returns what this rank has sent and received since the communicator was opened.
#' It sends nothing, and is not collective.
#'
#' @inheritParams ring_rank
#' @param peer A rank, a whole number: count the link to this rank only. `calls`, `bytes_shared` and
#'   `wait_ns` are 0 then. `NULL`: count all links.
#' @returns A list of doubles:
#'   * `calls`, the number of calls.
#'   * `bytes_sent` and `bytes_received`, over links: headers and payload, without the handshakes
#'     that open links.
#'   * `bytes_shared`, the payload that this rank has passed to ranks of its host through shared
#'     memory. Each byte counts once, whatever the number of ranks that read it.
#'   * `messages_sent` and `messages_received`, over links.
#'   * `wait_ns`, the nanoseconds in which the rank waited for other ranks and did nothing else.
#' @seealso [ring_comm_explain()], for a prediction of these numbers; `vignette("performance")`.
#' @examples
#' comm <- ring_init()
#' ring_barrier(comm)
#' ring_counters(comm)$calls
#' ring_close(comm)
#' @export
ring_counters <- function(comm, peer = NULL) {
  check_given(comm)
  if (!is.null(peer)) peer <- check_whole(peer, "peer", least = 0)
  .Call(C_comm_counters, comm, peer)
}

#' Close or abort a communicator
#'
#' `ring_close()` closes the communicator. Every rank calls it. It waits until all ranks have called
#' it, and then at most 5 seconds until the last bytes of this rank have arrived. `ring_abort()`
#' ends the communicator at once, and is not collective: the current or next call of the other ranks
#' fails with `ring_error_aborted`. On a closed or aborted communicator both functions do nothing.
#'
#' @inheritParams ring_rank
#' @param reason A string for the error message on the other ranks. `NULL`: none.
#' @returns `NULL`, invisibly.
#' @section Errors:
#' `ring_close()` waits for other ranks, so it can fail with `ring_error_peer_lost`,
#' `ring_error_timeout`, `ring_error_mismatch` or `ring_error_aborted`. See [ring_error].
#'
#' In a handler of a condition that a call on `comm` signals, such as `ring_stall`, `ring_abort()`
#' ends the communicator, too. The call fails when the handler returns.
#' @seealso [ring_init()], [ring_error]
#' @examples
#' comm <- ring_init()
#' ring_close(comm)
#' comm
#' @export
ring_close <- function(comm) {
  check_given(comm)
  invisible(.Call(C_comm_close, comm, 0))
}

#' @rdname ring_close
#' @export
ring_abort <- function(comm, reason = NULL) {
  check_given(comm)
  invisible(.Call(C_comm_abort, comm, check_string(reason, "reason")))
}

#' @export
format.ring_comm <- function(x, ...) {
  check_format_dots(...)
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
  check_print_dots(...)
  cat(format(x), "\n", sep = "")
  invisible(x)
}

# The number of communicators of this process that are not collected yet.
comm_live <- function() .Call(C_comm_live)
