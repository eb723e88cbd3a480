# SPDX-License-Identifier: Apache-2.0

#' Allocate a vector in memory that ranks of a host share
#'
#' `ring_alloc()` allocates a vector of zeros that the other ranks of this host can read, so that
#' collectives need not copy it first. Not collective: every rank may allocate vectors of its own.
#'
#' @details
#' The vector behaves like any other vector of R. It lives as long as R refers to it, also after the
#' communicator was closed.
#'
#' The results of collectives are in shared memory already. They can be passed to the next
#' collective on the same communicator without a copy (except the result of [ring_broadcast()] on
#' its root). `ring_alloc()` is for vectors that a rank fills itself, with `x[] <- values` or part
#' by part. It saves time from 64 KiB on, if the vector is passed more than once or is filled part
#' by part.
#'
#' The result is an ordinary vector if it is shorter than 64 KiB, or if the rank is alone on its
#' host. A new vector that R makes from it is an ordinary vector, too: `x + 1`, or a copy that R
#' makes because another name refers to `x`.
#'
#' @section Forked processes:
#' A forked child, such as those of [parallel::mclapply()], shares this memory with its parent. If
#' the child writes into such a vector, or into the result of a collective, the values change in the
#' parent and on the other ranks of the host, too. R writes into a vector only if no other name
#' refers to it, so this is rare. `x + 0` makes a copy that belongs to the child.
#'
#' @inheritParams ring_rank
#' @param length The number of elements, a whole number, 0 or more.
#' @param type The type of the elements: `"double"`, `"integer"`, `"logical"`, `"complex"` or
#'   `"raw"`.
#' @returns A vector of type `type` with `length` zeros (or `FALSE`), without attributes.
#' @section Errors:
#' `ring_error_invalid` for invalid arguments; `ring_error_no_memory`.
#' @seealso [ring_init()], whose argument `shared_memory` turns shared memory off;
#'   `vignette("performance")`.
#' @examples
#' comm <- ring_init()
#' gradient <- ring_alloc(comm, 1e5)
#' for (part in 1:10) gradient[(part - 1) * 1e4 + 1:1e4] <- runif(1e4)
#' total <- ring_allreduce(comm, gradient)
#' ring_close(comm)
#' @export
ring_alloc <- function(comm, length, type = "double") {
  check_given(comm, length)
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
