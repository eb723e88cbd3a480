# SPDX-License-Identifier: Apache-2.0

#' Give all ranks the same unique id of NCCL
#'
#' With a unique id the processes of an NCCL communicator find each other. Rank 0 loads NCCL and
#' asks it; the others need none for this. Rank 0's process has to live until the NCCL communicator
#' has been made. All ranks call this function.
#'
#' NCCL chooses the network by itself: the variable `NCCL_SOCKET_IFNAME`, if it is needed, must be
#' set on all ranks before. What NCCL then sends is neither authenticated nor encrypted.
#'
#' @inheritParams ring_tf_config
#' @param library Where rank 0 has NCCL. `NULL`: `libnccl.so.2` or else `libnccl.so`, wherever the
#'   system finds it.
#' @returns The 128 bytes of an `ncclUniqueId`: a raw vector.
#' @section Errors:
#' `ring_error_unsupported`, on all ranks, when rank 0 has no NCCL, or that fails; the communicator
#' goes on. Else as for [ring_allreduce()].
#' @examples
#' comm <- ring_init()
#' tryCatch(ring_nccl_id(comm), ring_error_unsupported = conditionMessage)
#' ring_close(comm)
#' @export
ring_nccl_id <- function(comm, library = NULL, ...) {
  with_frameworks_comm(comm, ..., code = function(comm) {
    library <- agree(comm, check_string(library, "library"))
    .Call(C_nccl_id, comm, if (!is.null(library)) path.expand(library))
  })
}
