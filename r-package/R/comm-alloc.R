# SPDX-License-Identifier: Apache-2.0

#' Allocate a vector in memory that ranks of a host share
#'
#' `ring_alloc()` makes a vector of zeros that the other ranks of this host can read: collectives
#' that it is passed to need not copy it first. Not collective: every rank may allocate what it
#' likes. It is a vector like any other, and lives as long as R needs it, also when the communicator
#' is closed.
#'
#' The results of collectives are in such memory without further ado, and so can be passed on to the
#' next one on the same communicator (but for what [ring_broadcast()] returns on its root).
#' `ring_alloc()` is for what a rank fills by itself, with `x[] <- values` or piece by piece, and
#' pays where that is passed more than once, or made piece by piece. From 64 KiB on; what is
#' shorter, or has no ranks to share it with, is an ordinary vector. So is what R makes of it:
#' `x + 1`, or `x` when it is changed while another name stands for it.
#'
#' @section Forked processes:
#' A forked child, such as those of [parallel::mclapply()], has this memory in common with its
#' parent: what it writes into such a vector, or a result, the parent and the other ranks see. R
#' writes into a vector only if nothing else refers to it, so this is rare; `x + 0` is a copy of the
#' child's own.
#'
#' @inheritParams ring_rank
#' @param length The number of elements.
#' @param type `"double"`, `"integer"`, `"logical"` or `"raw"`.
#' @returns A vector.
#' @section Errors:
#' `ring_error_invalid` for arguments that make no sense; `ring_error_no_memory`.
#' @seealso `shared_memory` of [ring_init()], to do without.
#' @examples
#' comm <- ring_init()
#' gradient <- ring_alloc(comm, 1e5)
#' for (part in 1:10) gradient[(part - 1) * 1e4 + 1:1e4] <- runif(1e4)
#' total <- ring_allreduce(comm, gradient)
#' ring_close(comm)
#' @export
ring_alloc <- function(comm, length, type = "double") {
  types <- c("double", "integer", "logical", "raw")
  if (!is_string(type) || !type %in% types) {
    ring_stop("INVALID", paste0(
      "`type` must be one of ", paste0('"', types, '"', collapse = ", "), ", not ", describe(type)
    ))
  }
  .Call(C_shared_alloc, comm, type, check_length(length))
}

# Whether a vector is in the core's memory.
is_shared <- function(x) .Call(C_shared_is, x)
