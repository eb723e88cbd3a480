# SPDX-License-Identifier: Apache-2.0

#' Allocate a vector in memory that ranks of a host share
#'
#' `ring_alloc()` makes a vector of zeros that the other ranks of this host can read, so collectives
#' need not copy it first. Not collective: every rank may allocate vectors of its own. The vector
#' behaves like any other. It lives as long as R refers to it, also when the communicator is closed.
#'
#' The results of collectives are in such memory already, and can be passed to the next collective
#' on the same communicator without a copy (except the result of [ring_broadcast()] on its root).
#' `ring_alloc()` is for vectors that a rank fills by itself, with `x[] <- values` or piece by
#' piece. It pays where the vector is passed more than once, or is made piece by piece, from 64 KiB
#' on. A shorter vector, or a vector of a rank that is alone on its host, is an ordinary vector. So
#' is a new vector that R makes of it: `x + 1`, or `x` when it is changed while another name refers
#' to it.
#'
#' @section Forked processes:
#' A forked child, such as those of [parallel::mclapply()], shares this memory with its parent. When
#' the child writes into such a vector, or into a result, the parent and the other ranks see it. R
#' writes into a vector only if nothing else refers to it, so this is rare; `x + 0` is a copy of the
#' child's own.
#'
#' @inheritParams ring_rank
#' @param length The number of elements.
#' @param type `"double"`, `"integer"`, `"logical"`, `"complex"` or `"raw"`.
#' @returns A vector.
#' @section Errors:
#' `ring_error_invalid` for invalid arguments; `ring_error_no_memory`.
#' @seealso `shared_memory` of [ring_init()], to turn shared memory off.
#' @examples
#' comm <- ring_init()
#' gradient <- ring_alloc(comm, 1e5)
#' for (part in 1:10) gradient[(part - 1) * 1e4 + 1:1e4] <- runif(1e4)
#' total <- ring_allreduce(comm, gradient)
#' ring_close(comm)
#' @export
ring_alloc <- function(comm, length, type = "double") {
  types <- c("double", "integer", "logical", "complex", "raw")
  if (!is_string(type) || !type %in% types) {
    ring_stop("INVALID", paste0(
      "`type` must be one of ", paste0('"', types, '"', collapse = ", "), ", not ", describe(type)
    ))
  }
  .Call(C_shared_alloc, comm, type, check_length(length))
}

# Whether a vector is in the core's memory.
is_shared <- function(x) .Call(C_shared_is, x)
