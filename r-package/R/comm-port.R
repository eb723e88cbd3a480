# SPDX-License-Identifier: Apache-2.0

#' Reserve a TCP port for a server that is started later
#'
#' `ring_port_reserve()` finds a free port on this host, within the `ports` that [ring_init()] was
#' given, and holds it: the port is bound on every address, but does not listen.
#' `ring_port_release()` releases it; a server that has bound the port keeps it. The functions for
#' frameworks, such as [ring_tf_config()], reserve ports by themselves.
#'
#' A server of this user that sets `SO_REUSEADDR` (on Linux) or `SO_REUSEPORT` before it binds can
#' bind the port while it is held. For a server that sets neither option, release the port first.
#'
#' A port is held until it is released, or until the communicator is aborted or the garbage
#' collector finds it. [ring_close()] keeps it. Nothing is sent: every rank may reserve as many
#' ports as it needs.
#'
#' @inheritParams ring_rank
#' @param port A port that is held. `NULL`: all of them.
#' @returns `ring_port_reserve()` returns the port, an integer; `ring_port_release()` returns
#'   `NULL`, invisibly.
#' @section Errors:
#' `ring_error_system` when no port is free; the communicator stays usable. `ring_error_invalid` for
#' a port that is not held, and when the communicator is closed. See [ring_error].
#' @examples
#' comm <- ring_init()
#' port <- ring_port_reserve(comm)
#' ring_allgather(comm, port)
#' ring_port_release(comm, port)
#' ring_close(comm)
#' @export
ring_port_reserve <- function(comm) .Call(C_port_reserve, comm)

#' @rdname ring_port_reserve
#' @export
ring_port_release <- function(comm, port = NULL) {
  port <- check_whole(port, "port", least = 1, absent = 0L)
  invisible(.Call(C_port_release, comm, port))
}
