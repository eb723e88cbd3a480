# SPDX-License-Identifier: Apache-2.0

#' Reserve a TCP port for a server that is started later
#'
#' `ring_port_reserve()` reserves a free port on this host, within the `ports` of [ring_init()];
#' without them, where possible, one that the system gives to no socket that asks for any port. The
#' port is bound on every address, and does not listen. `ring_port_release()` releases a port; a
#' server that has bound the port keeps it. Both send nothing, and are not collective: every rank
#' may reserve as many ports as it needs.
#'
#' @details
#' A server of this user can bind a reserved port if it sets `SO_REUSEADDR` (on Linux) or
#' `SO_REUSEPORT` before it binds. For a server that sets neither option, release the port first.
#' The functions for frameworks, such as [ring_tf_config()], reserve their ports themselves.
#'
#' A port stays reserved until it is released, the communicator is aborted, or the garbage collector
#' frees the communicator. [ring_close()] does not release it.
#'
#' @inheritParams ring_rank
#' @param port A reserved port, a whole number. `NULL`: all reserved ports.
#' @returns `ring_port_reserve()` returns the port, one integer. `ring_port_release()` returns
#'   `NULL`, invisibly.
#' @section Errors:
#' `ring_error_system` when no port is free; the communicator stays usable. `ring_error_invalid` for
#' a port that is not reserved, and on a closed communicator. See [ring_error].
#' @seealso [ring_tf_config()] and [ring_ray_config()], which reserve ports for frameworks.
#' @examples
#' comm <- ring_init()
#' port <- ring_port_reserve(comm)
#' ring_allgather(comm, port)
#' ring_port_release(comm, port)
#' ring_close(comm)
#' @export
ring_port_reserve <- function(comm) {
  check_given(comm)
  .Call(C_port_reserve, comm)
}

#' @rdname ring_port_reserve
#' @export
ring_port_release <- function(comm, port = NULL) {
  check_given(comm)
  port <- check_whole(port, "port", least = 1, absent = 0L)
  invisible(.Call(C_port_release, comm, port))
}
