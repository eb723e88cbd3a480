# SPDX-License-Identifier: Apache-2.0
#
# Ray. Its head binds a port that is held. Its token is sent as numbers, as by Python's ray_config.

#' Start a Ray cluster on the ranks
#'
#' `ring_ray_config()` sets the variables that Python's `ray.init()` reads, and returns the command
#' that starts this rank's Ray node. All ranks call it; it starts nothing. Start the head on rank 0,
#' whose port is held until Ray has bound it, and then the nodes of the other ranks, which join it.
#' The commands stay in the foreground. To end such a process ends its node, and no other.
#'
#' Ray 2.52 or later accepts only processes that have its token, which is made here. Earlier
#' versions ask for no token, so anyone who can connect to their ports can run code there. No
#' version encrypts its traffic, the token included, unless Ray is set up for TLS. Ray's other ports
#' are not within the `ports` of [ring_init()].
#'
#' @inheritParams ring_tf_config
#' @returns A list: `address`, the address of the head, which is in `RAY_ADDRESS`, too; and `start`,
#'   the command of this rank, a character vector. Add options where several ranks share a host,
#'   such as `--num-cpus` and `--object-store-memory`, because each node would take all of both. The
#'   variables `RAY_AUTH_MODE` and `RAY_AUTH_TOKEN` are set as well.
#' @section Errors:
#' As for [ring_tf_config()].
#' @examples
#' comm <- ring_init()
#' config <- ring_ray_config(comm)
#' paste(config$start, collapse = " ")
#' ring_close(comm)
#' @export
ring_ray_config <- function(comm, ...) {
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

# The address of a node is given only where other hosts can reach it; for a name Ray finds one.
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
