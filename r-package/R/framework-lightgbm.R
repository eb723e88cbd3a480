# SPDX-License-Identifier: Apache-2.0
#
# LightGBM: its network parameters. LightGBM cannot bind a reserved port, so the port is released
# when all ranks have all ports. Python's frameworks/_lightgbm.py does the same.

#' @rdname ring_tf_config
#' @order 5
#' @export
ring_lightgbm_config <- function(comm, ...) {
  check_given(comm)
  with_frameworks_comm(comm, ..., code = function(comm) {
    rows <- frameworks_gather(comm, 1L, function() {
      lightgbm_hosts(comm)
      ring_port_reserve(comm)
    })
    port <- as.integer(rows[[ring_rank(comm) + 1L]])
    ring_port_release(comm, port)
    machines <- mapply(frameworks_address, lightgbm_hosts(comm), rows)
    list(
      machines = paste(machines, collapse = ","),
      local_listen_port = port,
      num_machines = ring_size(comm)
    )
  })
}

# The IPv4 addresses of all hosts. LightGBM finds its rank by an address of its host in the list.
lightgbm_hosts <- function(comm) {
  vapply(ring_hosts(comm), function(host) {
    address <- suppressWarnings(utils::nsl(host))
    if (is_string(address)) return(address)
    ring_stop("INVALID", paste0(
      "host ", host, " has no IPv4 address, and LightGBM needs one: pass IPv4 `addresses` to ",
      "ring_init()"
    ))
  }, "")
}
