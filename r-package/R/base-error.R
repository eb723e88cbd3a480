# SPDX-License-Identifier: Apache-2.0
#
# The one place where conditions are made. C comes here as well (src/error.c), with the names of
# RING_STATUS_MAP, and with what a call that waits says (src/interrupt.c).

#' Errors of sparkring, as classes of conditions
#'
#' Every error has the class `ring_error`, and before it one that says what happened:
#'
#' | class                    | meaning                                                        |
#' |--------------------------|----------------------------------------------------------------|
#' | `ring_error_invalid`     | a bad argument, or a call after [ring_close()]                 |
#' | `ring_error_timeout`     | the deadline passed                                            |
#' | `ring_error_peer_lost`   | another rank died or cannot be reached                         |
#' | `ring_error_mismatch`    | the ranks called different things                              |
#' | `ring_error_auth`        | what answers cannot prove that it belongs to the job           |
#' | `ring_error_aborted`     | a rank aborted, was interrupted, ended unclosed or came too late |
#' | `ring_error_busy`        | another call on this communicator is running                   |
#' | `ring_error_unsupported` | not supported here                                             |
#' | `ring_error_no_memory`   | out of memory                                                  |
#' | `ring_error_system`      | a system call failed                                           |
#' | `ring_error_remote`      | a rank of [ring_apply()] or [ring_run()] failed or was lost    |
#'
#' Besides `message` and `call`, the condition has `status` (such as `"TIMEOUT"`), `rank` (the rank
#' at fault) and `errno` (the operating system's error code); the last two are `NA` where they are
#' unknown.
#'
#' After any error but `ring_error_invalid` and `ring_error_busy`, in a call that the ranks make
#' together, the communicator is broken: every later call fails in the same way, and [ring_init()]
#' may open another one. The same holds after an interrupt. Functions after whose error it goes on
#' say so.
#'
#' @seealso `vignette("failures")`, for the text of each, its usual causes and what to do.
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
