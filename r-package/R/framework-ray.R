# SPDX-License-Identifier: Apache-2.0
#
# Ray: a cluster of the ranks, with its head on rank 0. The head can bind a reserved port. Ray's
# token is sent as numbers, as in Python. Python's frameworks/_ray.py does the same.

#' Start a Ray cluster on the ranks
#'
#' `ring_ray_config()` sets the environment variables that Python's `ray.init()` reads, and returns
#' the command that starts the Ray node of this rank. All ranks call it. It starts nothing itself.
#'
#' @details
#' Run the command on rank 0 first: it starts the head. Then run the commands of the other ranks,
#' whose nodes join the head. The port of the head stays reserved until Ray has bound it. Each
#' command runs in the foreground; when it ends, its node ends, and no other node.
#'
#' The variables are `RAY_ADDRESS`, `RAY_AUTH_MODE` and `RAY_AUTH_TOKEN`.
#'
#' If several ranks share a host, add options such as `--num-cpus` and `--object-store-memory` to
#' the commands, because by default each node takes all of both.
#'
#' @section Security:
#' Ray 2.52 or later accepts only processes with its token, which `ring_ray_config()` makes. Earlier
#' versions check no token: every program that can connect to their ports can run code there. Ray
#' encrypts nothing, not even the token, unless it is configured for TLS. Ray's other ports are not
#' within the `ports` of [ring_init()].
#'
#' @inheritParams ring_tf_config
#' @returns A list of two elements: `address`, the address of the head, a string; and `start`, the
#'   command of this rank with its arguments, a character vector.
#' @section Errors:
#' As for [ring_tf_config()].
#' @seealso [ring_tf_config()], for other frameworks; [ring_port_reserve()].
#' @examples
#' comm <- ring_init()
#' config <- ring_ray_config(comm)
#' paste(config$start, collapse = " ")
#' ring_close(comm)
#' @export
ring_ray_config <- function(comm, ...) {
  check_given(comm)
  with_frameworks_comm(comm, ..., code = function(comm) {
    rows <- frameworks_gather(comm, 1L + ray_token, function() {
      if (ring_rank(comm) > 0L) return(integer(1L + ray_token))
      c(ring_port_reserve(comm), as.integer(random_bytes(ray_token)))
    })
    port <- as.integer(rows[1L, 1L])
    head <- frameworks_address(ring_hosts(comm)[[1L]], port)
    frameworks_set(list(
      RAY_ADDRESS = head,
      RAY_AUTH_MODE = "token",
      RAY_AUTH_TOKEN = paste(as.raw(rows[-1L, 1L]), collapse = "")
    ))
    list(address = head, start = ray_start(comm, head, port))
  })
}

ray_token <- 32L # bytes

# The command of this rank. It has the node's address only if that is a number that other hosts can
# reach. For a host name Ray finds an address itself.
ray_start <- function(comm, head, port) {
  rank <- ring_rank(comm)
  host <- ring_hosts(comm)[[rank + 1L]]
  own <- !grepl("^127\\.|^::1$", host) && grepl("^[0-9.]+$|:", host)
  c(
    "ray", "start", "--block",
    if (rank > 0L) paste0("--address=", head) else c("--head", paste0("--port=", port)),
    if (own) paste0("--node-ip-address=", host),
    if (rank == 0L) "--include-dashboard=false",
    "--disable-usage-stats"
  )
}
