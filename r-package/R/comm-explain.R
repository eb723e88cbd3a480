# SPDX-License-Identifier: Apache-2.0

#' Explain which algorithm a collective uses
#'
#' Several algorithms can carry out a collective. The fastest one depends on the length of the data,
#' the number of ranks, and the links between them. The selector chooses by a table of costs; this
#' function returns its choice and the reason. Nothing is sent: every rank may ask for itself.
#'
#' @section Rules:
#' The argument `algorithms` of [ring_init()], or the variable `SPARKRING_ALGORITHM`, overrides the
#' table, as in `"allreduce:ring:64KiB-,broadcast:tree:-1MiB"`. Each rule names a collective, one of
#' its algorithms and, unless it is for every size, a range of `bytes`: `FROM-`, `-TO` or `FROM-TO`,
#' both ends included, where a number may end in `KiB`, `MiB` or `GiB`. The first rule that matches
#' a call counts. The algorithms are:
#'
#' * `allreduce`: `direct`, `doubling`, `halving` (not for float16 and bfloat16, where the rule is
#'   passed over), `ring`, `hierarchical` (only for several hosts with several ranks on some of
#'   them; passed over elsewhere)
#' * `reduce`, `broadcast`: `tree`, `chain`
#' * `reduce_scatter`: `direct`, `ring`
#' * `allgather`, `allgatherv`: `bruck`, `ring`
#' * `gather`, `gatherv`, `scatter`, `scatterv`: `tree`, `direct`
#' * `alltoall`: `bruck`, `pairwise`
#'
#' Every rank must have the same rules.
#'
#' @inheritParams ring_rank
#' @param collective The name of the collective, such as `"allreduce"`.
#' @param bytes The bytes of the larger of a rank's two buffers: of `"allgather"` the result, of
#'   `"scatter"` root's vector. Where every rank has a part, they are rounded up to whole elements;
#'   variable-length collectives are taken to have equal parts.
#' @param dtype The element type: `"float64"` for doubles, `"int32"` for integers and logicals,
#'   `"uint8"` for raw vectors.
#' @param root The root, where there is one.
#' @returns A list of class `ring_explanation`, which prints as text: `collective`, `dtype`,
#'   `algorithm`; `reason`, which is `"rule"`, `"least cost"`, `"only one"` or
#'   `"shared memory"` (nothing goes over links; the algorithm is `"slots"` for short calls, else
#'   `"arena"`); `tier`, the
#'   slowest link between two ranks (`"shm"`, `"loopback"` or `"network"`); `backend`, which carries
#'   the call out (`"native"`); `bytes`; `count`, the
#'   elements of the call; `steps` of this rank and its `links`; `messages_sent`,
#'   `messages_received`, `bytes_sent` and `bytes_received`, which [ring_counters()] would count for
#'   the call; `seconds`, as the table predicts; `runner_up`, the next best algorithm, and
#'   `runner_up_seconds`, both `NA` where there is none; and `text`.
#' @section Errors:
#' `ring_error_invalid` for an unknown collective, dtype or root. See [ring_error].
#' @seealso [ring_counters()] for the bytes that calls have sent; `vignette("performance")`.
#' @examples
#' comm <- ring_init(algorithms = "allreduce:ring:64KiB-")
#' ring_comm_explain(comm, "allreduce", 2^20)
#' ring_comm_explain(comm, "broadcast", 800)$algorithm
#' ring_close(comm)
#' @export
ring_comm_explain <- function(comm, collective, bytes, dtype = "float64", root = 0) {
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
format.ring_explanation <- function(x, ...) x$text

#' @export
print.ring_explanation <- function(x, ...) {
  cat(format(x), "\n", sep = "")
  invisible(x)
}
