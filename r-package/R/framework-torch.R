# SPDX-License-Identifier: Apache-2.0
#
# PyTorch: the variables that torchrun would set. The store of rank 0 sets SO_REUSEADDR before it
# binds, so it can bind a reserved port. Python's frameworks/_torch.py gives the reasons for the
# variables of torchelastic.

#' @rdname ring_tf_config
#' @order 2
#' @export
ring_torch_env <- function(comm, ...) {
  check_given(comm)
  with_frameworks_comm(comm, ..., code = function(comm) {
    port <- frameworks_root_port(comm)
    hosts <- unique(ring_hosts(comm))
    variables <- list(
      MASTER_ADDR = hosts[[1L]],
      MASTER_PORT = port,
      RANK = ring_rank(comm),
      WORLD_SIZE = ring_size(comm),
      LOCAL_RANK = ring_local_rank(comm),
      LOCAL_WORLD_SIZE = ring_local_size(comm),
      GROUP_RANK = match(ring_hosts(comm)[[ring_rank(comm) + 1L]], hosts) - 1L,
      GROUP_WORLD_SIZE = length(hosts),
      TORCHELASTIC_RUN_ID = Sys.getenv("TORCHELASTIC_RUN_ID", "sparkring"),
      TORCHELASTIC_USE_AGENT_STORE = "False",
      ACCELERATE_USE_CPU = if (torch_has_only_cpu()) Sys.getenv("ACCELERATE_USE_CPU", "true")
    )
    variables <- Filter(Negate(is.null), variables)
    frameworks_set(c(lapply(variables, as.character), interface_variables(comm)))
  })
}

# Whether the PyTorch of reticulate is there and has no accelerator. Starts no Python.
torch_has_only_cpu <- function() {
  if (!isNamespaceLoaded("reticulate") || !reticulate::py_available()) return(FALSE)
  if (!reticulate::py_module_available("torch")) return(FALSE)
  torch <- reticulate::import("torch")
  kind <- if (reticulate::py_has_attr(torch, "accelerator")) torch$accelerator else torch$cuda
  !kind$is_available()
}
