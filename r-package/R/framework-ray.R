# SPDX-License-Identifier: Apache-2.0
#
# Ray's head takes a port that is held. Its token travels as numbers, as from Python's ray_config.

#' Start a Ray cluster on the ranks
#'
#' `ring_ray_config()` sets the variables that Python's `ray.init()` reads, and tells how to start
#' this rank's Ray node. All ranks call it; it starts nothing. Rank 0 is to start the head, whose
#' port is reserved for it and held until Ray has bound it, and then the others their nodes, which
#' join it. The commands stay in the foreground: whoever ends such a process ends its node, and no
#' other.
#'
#' Ray's processes accept only those that know its token, which is made here, if they are of Ray
#' 2.52 or later; earlier ones ask for none, so that whoever reaches their ports can run code there.
#' In no version is what they send encrypted, the token included, unless Ray is set up for TLS.
#' Ray's other ports are not within the `ports` of [ring_init()].
#'
#' @inheritParams ring_tf_config
#' @returns A list: `address`, that of the head, which is in `RAY_ADDRESS`, too; and `start`, the
#'   command of this rank, a character vector to which more options may be added: with several ranks
#'   on a host, such as `--num-cpus` and `--object-store-memory`, as each would take all of both.
#'   The variables `RAY_AUTH_MODE` and `RAY_AUTH_TOKEN` are set as well.
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

# Its own address is given only where it is one that others can reach; for a name Ray finds one.
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
