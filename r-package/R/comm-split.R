# SPDX-License-Identifier: Apache-2.0

#' Split a communicator
#'
#' Ranks that pass the same color get a communicator of their own. Every rank of `comm` makes the
#' call.
#'
#' The new communicator has ranks from 0, in order of `key` and, where keys are equal, of their rank
#' in `comm`. Both communicators can be used at the same time and are closed independently. Only the
#' death of a rank breaks both.
#'
#' @inheritParams ring_rank
#' @param color A whole number, 0 or more: ranks with the same color are together. `NULL` or `NA`:
#'   this rank gets no communicator.
#' @param key A whole number that orders the ranks.
#' @returns A communicator, of class `ring_comm`, or `NULL`.
#' @section Errors:
#' As for [ring_allreduce()]; `comm` stays usable where only the new communicator could not be
#' opened.
#' @seealso [ring_local_rank()], for the ranks of one host.
#' @examples
#' comm <- ring_init()
#' half <- ring_comm_split(comm, color = ring_rank(comm) %% 2)
#' half
#' ring_allreduce(half, 1)
#' ring_close(half)
#' ring_close(comm)
#' @export
ring_comm_split <- function(comm, color, key = 0) {
  if (length(color) == 1L && is.atomic(color) && is.na(color)) color <- NULL
  color <- check_whole(color, "color", least = 0, absent = -1L)
  .Call(C_comm_split, comm, color, check_whole(key, "key", least = -.Machine$integer.max))
}
