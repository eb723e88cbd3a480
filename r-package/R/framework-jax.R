# SPDX-License-Identifier: Apache-2.0
#
# JAX: the arguments of jax.distributed.initialize. The coordinator of rank 0 is a gRPC server,
# which can bind a reserved port. Python's frameworks/_jax.py does the same.

#' @rdname ring_tf_config
#' @order 3
#' @export
ring_jax_config <- function(comm, ...) {
  check_given(comm)
  with_frameworks_comm(comm, ..., code = function(comm) {
    port <- frameworks_root_port(comm)
    list(
      coordinator_address = frameworks_address(ring_hosts(comm)[[1L]], port),
      num_processes = ring_size(comm),
      process_id = ring_rank(comm)
    )
  })
}
