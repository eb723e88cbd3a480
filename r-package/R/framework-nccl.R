# SPDX-License-Identifier: Apache-2.0

#' Give all ranks the same unique id of NCCL
#'
#' `ring_nccl_id()` returns a unique id of NCCL, the same on every rank. The processes of an NCCL
#' communicator find each other by this id. All ranks call the function. Rank 0 loads NCCL and makes
#' the id; the other ranks need no NCCL for this. The process of rank 0 must run until the NCCL
#' communicator is complete.
#'
#' @details
#' NCCL chooses the network itself. If the variable `NCCL_SOCKET_IFNAME` is needed, set it on all
#' ranks before the call. NCCL neither authenticates nor encrypts its traffic.
#'
#' @inheritParams ring_tf_config
#' @param library The path of the NCCL library on rank 0, a string. `NULL`: `libnccl.so.2` or else
#'   `libnccl.so`, by the search path of the system.
#' @returns A raw vector of length 128: the bytes of an `ncclUniqueId`.
#' @section Errors:
#' `ring_error_unsupported`, on all ranks, when rank 0 has no NCCL, or when NCCL fails. The
#' communicator stays usable. Other errors as for [ring_allreduce()].
#' @seealso [ring_gpus()], for the GPUs of a rank; [ring_tf_config()], for frameworks.
#' @examples
#' comm <- ring_init()
#' tryCatch(ring_nccl_id(comm), ring_error_unsupported = conditionMessage)
#' ring_close(comm)
#' @export
ring_nccl_id <- function(comm, library = NULL, ...) {
  check_given(comm)
  with_frameworks_comm(comm, ..., code = function(comm) {
    library <- agree(comm, check_string(library, "library"))
    .Call(C_nccl_id, comm, if (!is.null(library)) path.expand(library))
  })
}
