# SPDX-License-Identifier: Apache-2.0

#' Minloc and maxloc: the least or largest values, and the ranks that hold them
#'
#' Every rank passes a vector of the same type, length and shape. Each call makes two calls of
#' [ring_allreduce()].
#'
#' @inheritParams ring_allreduce
#' @param x A double, integer, logical or raw vector or array. It is never modified.
#' @returns A list:
#'   * `x`: the result of [ring_allreduce()] with `op = "min"` or `"max"`;
#'   * `rank`: for each element the lowest rank that holds it, an integer vector with the shape of
#'     `x`. Where `x` is `NA` or `NaN`, the lowest rank that holds one.
#' @inheritSection ring_allreduce Errors
#' @seealso [ring_allreduce()]
#' @examples
#' comm <- ring_init()
#' ring_minloc(comm, c(loss = 0.25))
#' ring_close(comm)
#' @export
ring_minloc <- function(comm, x) {
  check_given(comm, x)
  locate(comm, x, "min")
}

#' @rdname ring_minloc
#' @export
ring_maxloc <- function(comm, x) {
  check_given(comm, x)
  locate(comm, x, "max")
}

locate <- function(comm, x, op) {
  values <- ring_allreduce(comm, x, op)
  holds <- (as.vector(x) == as.vector(values)) %in% TRUE | (is.na(x) & is.na(values))
  ranks <- array(ifelse(holds, ring_rank(comm), ring_size(comm)), length(x))
  storage.mode(ranks) <- "integer"
  attributes(ranks) <- attributes(unclass(x))[c("dim", "dimnames", "names")]
  list(x = values, rank = ring_allreduce(comm, ranks, "min"))
}
