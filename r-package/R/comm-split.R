# SPDX-License-Identifier: Apache-2.0

#' Split a communicator
#'
#' `ring_comm_split()` makes a new communicator for each group of ranks with the same `color`. It is
#' the function `MPI_Comm_split()` of MPI. Every rank of `comm` makes the call.
#'
#' @details
#' The ranks of a new communicator count from 0, in the order of `key`. Ranks with equal keys keep
#' their order in `comm`. Both communicators can be used at the same time, and are closed
#' independently. Only the death of a rank breaks both.
#'
#' @inheritParams ring_rank
#' @param color A whole number, 0 or more. Ranks with the same color get the same new communicator.
#'   `NULL` or `NA`: this rank gets no communicator.
#' @param key A whole number that orders the ranks of the new communicator.
#' @returns A communicator, an object of class `ring_comm`; `NULL` on a rank without a color.
#' @section Errors:
#' As for [ring_allreduce()]. If only the new communicator could not be opened, `comm` stays usable.
#' @seealso [ring_local_rank()], for the ranks of one host; [ring_init()].
#' @examples
#' comm <- ring_init()
#' half <- ring_comm_split(comm, color = ring_rank(comm) %% 2)
#' half
#' ring_allreduce(half, 1)
#' ring_close(half)
#' ring_close(comm)
#' @export
ring_comm_split <- function(comm, color, key = 0) {
  check_given(comm, color)
  if (length(color) == 1L && is.atomic(color) && is.na(color)) color <- NULL
  color <- check_whole(color, "color", least = 0, absent = -1L)
  .Call(C_comm_split, comm, color, check_whole(key, "key", least = -.Machine$integer.max))
}
