# SPDX-License-Identifier: Apache-2.0

#' Give all ranks the same unique id of NCCL
#'
#' The processes of an NCCL communicator find each other by a unique id. Rank 0 loads NCCL and makes
#' the id; the other ranks need no NCCL for this. Rank 0's process has to live until the NCCL
#' communicator has been made. All ranks call this function.
#'
#' NCCL chooses the network by itself. Where the variable `NCCL_SOCKET_IFNAME` is needed, set it on
#' all ranks before. NCCL neither authenticates nor encrypts its traffic.
#'
#' @inheritParams ring_tf_config
#' @param library The path of NCCL on rank 0. `NULL`: `libnccl.so.2` or else `libnccl.so`, by the
#'   system's search path.
#' @returns The 128 bytes of an `ncclUniqueId`: a raw vector.
#' @section Errors:
#' `ring_error_unsupported`, on all ranks, when rank 0 has no NCCL, or NCCL fails; the communicator
#' stays usable. Else as for [ring_allreduce()].
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
