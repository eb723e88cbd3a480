# SPDX-License-Identifier: Apache-2.0

#' Explain which algorithm a collective uses
#'
#' Several algorithms can carry out a collective. The fastest algorithm depends on the length of the
#' data, the number of ranks, and the links between them. The selector chooses an algorithm by a
#' table of costs. `ring_comm_explain()` returns the choice and the reason. It sends nothing. Not
#' collective: any rank may call it.
#'
#' @section Rules:
#' The argument `algorithms` of [ring_init()], or the variable `SPARKRING_ALGORITHM`, overrides the
#' table, as in `"allreduce:ring:64KiB-,broadcast:tree:-1MiB"`. A rule has a collective, one of its
#' algorithms and, optionally, a range of `bytes`: `FROM-`, `-TO` or `FROM-TO`. Both ends of the
#' range are included. A number may end in `KiB`, `MiB` or `GiB`. A rule without a range holds for
#' every size. The first rule that matches a call is used. The algorithms are:
#'
#' * `allreduce`: `direct`, `doubling`, `halving`, `ring`, `hierarchical`. A rule for `halving` is
#'   ignored for float16 and bfloat16. A rule for `hierarchical` is ignored unless there are several
#'   hosts, at least one with several ranks.
#' * `reduce`, `broadcast`: `tree`, `chain`
#' * `reduce_scatter`, `reduce_scatterv`: `direct`, `ring`
#' * `scan`, `exscan`: `doubling`, `chain`
#' * `allgather`, `allgatherv`: `bruck`, `ring`
#' * `gather`, `gatherv`, `scatter`, `scatterv`: `tree`, `direct`
#' * `alltoall`: `bruck`, `pairwise`
#'
#' Every rank must have the same rules.
#'
#' @inheritParams ring_rank
#' @param collective The name of the collective, a string such as `"allreduce"`.
#' @param bytes The size of the call in bytes, a whole number, 0 or more: the larger of the rank's
#'   input and result. For `"allgather"` it is the size of the result, for `"scatter"` the size of
#'   root's vector. For collectives with a part for each rank, the size is rounded up to whole
#'   elements. Variable-length collectives are assumed to have equal parts.
#' @param dtype The element type, a string: `"float64"` for doubles, `"int32"` for integers and
#'   logicals, `"uint8"` for raw vectors.
#' @param root The rank of the root, a whole number. Used by collectives that have a root.
#' @returns A list of class `ring_explanation`, which prints as text. Numbers are doubles. Its
#'   elements are:
#'   * `collective`, `dtype` and `bytes`, of the call; `count`, the number of elements.
#'   * `algorithm`, a string.
#'   * `reason`, a string: `"rule"`, `"least cost"`, `"only one"` or `"shared memory"`. With
#'     `"shared memory"` nothing is sent over links, and the algorithm is `"slots"` for short calls
#'     or `"arena"`. `"messages of MPI"`: the algorithm runs over messages of MPI. `"backend"`: a
#'     collective of MPI carries the call out.
#'   * `tier`, the slowest kind of link between two ranks: `"shm"`, `"loopback"` or `"network"`.
#'   * `backend`, the part of sparkring that carries out the call: `"native"` or `"mpi"`.
#'   * `steps` and `links`, the number of steps of this rank and of the links that it uses.
#'   * `messages_sent`, `messages_received`, `bytes_sent` and `bytes_received`, by which the call
#'     would raise the counters of [ring_counters()].
#'   * `seconds`, the predicted duration; 0 for MPI.
#'   * `runner_up` and `runner_up_seconds`, the next best algorithm and its predicted duration; `NA`
#'     if there is no other algorithm.
#'   * `text`, the explanation as one string.
#' @section Errors:
#' `ring_error_invalid` for an unknown collective, dtype or root. See [ring_error].
#' @seealso [ring_counters()], for the bytes that calls have sent; [ring_init()], for `algorithms`;
#'   `vignette("performance")`.
#' @examples
#' comm <- ring_init(algorithms = "allreduce:ring:64KiB-")
#' ring_comm_explain(comm, "allreduce", 2^20)
#' ring_comm_explain(comm, "broadcast", 800)$algorithm
#' ring_close(comm)
#' @export
ring_comm_explain <- function(comm, collective, bytes, dtype = "float64", root = 0) {
  check_given(comm, collective, bytes)
  if (!is_string(collective)) {
    check_stop("`collective` must be one string, not ", describe(collective), call = sys.call())
  }
  if (!is_string(dtype)) {
    check_stop("`dtype` must be one string, not ", describe(dtype), call = sys.call())
  }
  if (!is_number(bytes) || bytes != trunc(bytes) || bytes < 0 || bytes > 2^53) {
    check_stop("`bytes` must be one whole number, 0 or more, not ", describe(bytes),
               call = sys.call())
  }
  .Call(C_explain_call, comm, collective, as.double(bytes), dtype,
        check_whole(root, "root", least = 0))
}

#' @export
format.ring_explanation <- function(x, ...) {
  check_format_dots(...)
  x$text
}

#' @export
print.ring_explanation <- function(x, ...) {
  check_print_dots(...)
  cat(format(x), "\n", sep = "")
  invisible(x)
}
