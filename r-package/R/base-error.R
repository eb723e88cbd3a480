# SPDX-License-Identifier: Apache-2.0
#
# Only this file makes conditions. C calls ring_stop() with the names of RING_STATUS_MAP
# (src/error.c), and ring_stall() for a wait report (src/interrupt.c).

#' Errors of sparkring, as classes of conditions
#'
#' Every error of this package has two classes besides `error`: `ring_error`, and before it a class
#' for its cause. So `tryCatch(ring_error = )` catches all errors, and `tryCatch(ring_error_timeout
#' = )` catches one cause.
#'
#' | class                    | meaning                                                        |
#' |--------------------------|----------------------------------------------------------------|
#' | `ring_error_invalid`     | a bad argument, or a call after [ring_close()]                 |
#' | `ring_error_timeout`     | the deadline passed                                            |
#' | `ring_error_peer_lost`   | another rank died or cannot be reached                         |
#' | `ring_error_mismatch`    | the ranks made different calls                                 |
#' | `ring_error_auth`        | a peer cannot prove that it belongs to the job                 |
#' | `ring_error_aborted`     | a rank aborted, was interrupted, ended unclosed or was too late |
#' | `ring_error_busy`        | another call on this communicator has not ended                |
#' | `ring_error_unsupported` | not supported here                                             |
#' | `ring_error_no_memory`   | out of memory                                                  |
#' | `ring_error_system`      | a system call failed                                           |
#' | `ring_error_remote`      | a rank of [ring_apply()] or [ring_run()] failed or was lost    |
#'
#' An error in a collective call breaks the communicator, unless it is `ring_error_invalid` or
#' `ring_error_busy`. An interrupt breaks the communicator, too. On a broken communicator every
#' later call fails with the same error; [ring_init()] can open a new communicator. Some functions
#' raise further errors that leave the communicator usable: see *Errors* on their help pages.
#'
#' @returns A condition: a list with `message` and `call`, as usual, and three more elements.
#'   `status` is a string, such as `"TIMEOUT"`. `rank` is the rank at fault, an integer. `errno` is
#'   the error code of the operating system, an integer. Unknown ones are `NA`.
#' @seealso `vignette("failures")`, for the text of each error, its usual causes and the remedies;
#'   [ring_close()], to close or abort a communicator.
#' @name ring_error
#' @examples
#' comm <- ring_init()
#' tryCatch(
#'   ring_broadcast(comm, 1, root = 7),
#'   ring_error_invalid = function(error) conditionMessage(error)
#' )
#' ring_close(comm)
NULL

ring_stop <- function(status, message, rank = NA_integer_, errno = NA_integer_,
                      call = sys.call(-1)) {
  if (!is.null(call[["token"]])) call[["token"]] <- as.name("<hidden>")
  class <- c(paste0("ring_error_", tolower(status)), "ring_error", "error", "condition")
  fields <- list(message = message, call = call, status = status, rank = rank, errno = errno)
  stop(structure(class = class, fields))
}

ring_stall <- function(text) {
  fields <- list(message = paste0("sparkring: ", text, "\n"), call = NULL)
  message(structure(class = c("ring_stall", "message", "condition"), fields))
}
