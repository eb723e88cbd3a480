# SPDX-License-Identifier: Apache-2.0

#' Shrink a communicator to its living ranks
#'
#' `ring_shrink()` makes a communicator of the ranks that still live, after ranks were lost. Every
#' living rank makes the call, in a handler of the error that a lost rank caused. The processes go
#' on, with their memory.
#'
#' @details
#' The ranks keep their order, and are numbered from 0 without gaps. Any number of ranks may die,
#' also during the call. If a further rank dies late, the new communicator fails in turn, and can be
#' shrunk.
#'
#' A rank whose process has ended, or that has closed or aborted the communicator, is not awaited.
#' Every other rank is. A host that has vanished from the network does not tell that its rank is
#' dead: then the call fails with `ring_error_timeout`.
#'
#' The new communicator has the options of the old one, with the backend `"native"`. The old one is
#' closed. Communicators that it was split into, its reducers and its messages end with
#' `ring_error_aborted`.
#'
#' The first rank that calls `ring_shrink()` ends the communicator on the other ranks, whose calls
#' fail with `ring_error_aborted`.
#'
#' @inheritParams ring_rank
#' @param timeout Seconds until the other ranks must have called `ring_shrink()`. `NULL`: the
#'   `call_timeout` of the communicator.
#' @returns A communicator, an object of class `ring_comm`.
#' @section Errors:
#' `ring_error_timeout`: a rank that may live did not call `ring_shrink()`; the call may be
#' repeated. `ring_error_invalid`: the communicator was closed, aborted or shrunk.
#' `ring_error_aborted`: the call was interrupted, or the other ranks have gone on without this one.
#' Errors name ranks by their numbers before the first shrink.
#' @seealso [ring_init()], [ring_comm_split()], [ring_error]
#' @examples
#' comm <- ring_init()
#' total <- tryCatch(
#'   ring_allreduce(comm, 1),
#'   ring_error = function(error) {
#'     comm <<- ring_shrink(comm)
#'     ring_allreduce(comm, 1)
#'   }
#' )
#' ring_close(comm)
#' @export
ring_shrink <- function(comm, timeout = NULL) {
  check_given(comm)
  .Call(C_comm_shrink, comm, check_seconds(timeout, "timeout"))
}
