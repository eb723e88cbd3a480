# SPDX-License-Identifier: Apache-2.0

#' Collectives on named vectors, in any order
#'
#' A reducer runs a collective when all ranks have submitted its name. Ranks may submit names in
#' different orders. Short vectors that are ready together travel together.
#'
#' `ring_submit()` returns at once; `ring_submission_wait()` returns the result. All ranks pass the
#' same kind, dimensions, `op` and `root` under a name. Vectors travel as doubles, and keep their
#' dimensions.
#'
#' `ring_join()` is for ranks that have run out of data: they contribute zeros to the operations of
#' the other ranks until all ranks have joined.
#'
#' @inheritParams ring_rank
#' @param threshold The most bytes of one operation; 1: an operation for each vector.
#' @param cycle_time Seconds, up to 0.005, in which submissions gather while R does not wait.
#' @param cache_capacity Number of names that stay agreed on.
#' @param stall_timeout Seconds after which a name fails that some ranks miss; `NULL`: the
#'   `call_timeout` of `comm`; `Inf`: never.
#' @param autotune Whether rank 0 tries other values of `threshold` and `cycle_time` while the same
#'   names come again, for about 150 rounds, and keeps the fastest. That of rank 0 counts.
#' @param autotune_log Path of a file to which rank 0 appends what it has tried, as CSV; implies
#'   `autotune`.
#' @param reducer A reducer, from `ring_reducer()`.
#' @param name A string that is not in flight on this rank.
#' @param x A numeric, integer or logical vector or array; `NULL` for a barrier.
#' @param kind The collective. `"reduce_scatter"`, `"allgather"` and `"alltoall"` cut and
#'   concatenate along the last dimension; `"allgather"` and `"alltoall"` allow it to differ between
#'   ranks.
#' @param op The operation of `"allreduce"` and `"reduce_scatter"`, as for [ring_allreduce()].
#' @param root The rank that sends in `"broadcast"`.
#' @param splits For `"alltoall"`: how much of the last dimension each rank gets; `NULL`: equal
#'   parts.
#' @param submission A submission, from `ring_submit()`.
#' @returns `ring_reducer()` returns a reducer, `ring_submit()` a submission,
#'   `ring_submission_wait()` the result, `ring_submission_test()` whether it is there, and
#'   `ring_join()` the rank that joined last.
#' @section Errors:
#' Where ranks submit different things under a name, that name fails on all of them with
#' `ring_error_mismatch`, and later submissions work. A name that some ranks do not submit fails
#' with `ring_error_timeout` after `stall_timeout`, and the message names these ranks. Other
#' failures are those of [ring_allreduce()], and end the reducer.
#' @examples
#' comm <- ring_init()
#' reducer <- ring_reducer(comm)
#' weights <- ring_submit(reducer, "weights", matrix(1:4, 2), op = "avg")
#' loss <- ring_submit(reducer, "loss", 0.5)
#' ring_submission_wait(loss)
#' ring_submission_wait(weights)
#' ring_reducer_close(reducer)
#' ring_close(comm)
#' @export
ring_reducer <- function(comm, threshold = 128 * 2^20, cycle_time = 0.001, cache_capacity = 1024,
                         stall_timeout = NULL, autotune = FALSE, autotune_log = NULL) {
  check_given(comm)
  if (!is_number(threshold) || threshold < 1) {
    check_stop("`threshold` must be 1 or more bytes, not ", describe(threshold))
  }
  if (!is_number(cycle_time) || cycle_time < 0 || cycle_time > 0.005) {
    check_stop("`cycle_time` must be 0 to 0.005 seconds, not ", describe(cycle_time))
  }
  capacity <- check_whole(cache_capacity, "cache_capacity", least = 1)
  cycle_time <- if (cycle_time == 0) -1 else as.double(cycle_time)
  never <- identical(stall_timeout, Inf)
  stall_timeout <- if (never) -1 else check_seconds(stall_timeout, "stall_timeout")
  autotune_log <- check_string(autotune_log, "autotune_log")
  autotune <- check_flag(autotune, "autotune") || !is.null(autotune_log)
  if (!is.null(autotune_log)) autotune_log <- path.expand(autotune_log)
  made <- .Call(C_reducer_open, comm, as.double(threshold), cycle_time, as.double(capacity),
                stall_timeout, autotune, autotune_log)
  structure(made, size = ring_size(comm))
}

#' @rdname ring_reducer
#' @export
ring_submit <- function(reducer, name, x = NULL,
                        kind = c("allreduce", "reduce_scatter", "broadcast", "allgather",
                                 "alltoall", "barrier"),
                        op = "sum", root = 0, splits = NULL) {
  check_given(reducer, name)
  kind <- check_choice(kind)
  if (!is_string(name)) check_stop("`name` must be one string, not ", describe(name))
  if (!is_string(op)) check_stop("`op` must be one string, not ", describe(op))
  if (kind != "barrier") {
    if (!(is.numeric(x) || is.logical(x)) || is.object(x)) {
      check_stop("`x` must be a plain numeric, integer or logical vector, not ", describe(x))
    }
    storage.mode(x) <- "double"
  }
  if (!is.null(splits)) splits <- check_counts(splits, "splits")
  if (!is.null(splits) && length(splits) != attr(reducer, "size")) {
    check_stop("`splits` must have one number for each rank")
  }
  root <- check_whole(root, "root", least = 0)
  .Call(C_reducer_submit, reducer, kind, name, x, op, root, splits)
}

#' @rdname ring_reducer
#' @export
ring_submission_wait <- function(submission) {
  check_given(submission)
  result <- .Call(C_submission_wait, submission)
  if (is.null(result)) invisible(result) else result
}

#' @rdname ring_reducer
#' @export
ring_submission_test <- function(submission) {
  check_given(submission)
  .Call(C_submission_test, submission)
}

#' @rdname ring_reducer
#' @export
ring_join <- function(reducer) {
  check_given(reducer)
  .Call(C_reducer_join, reducer)
}

#' @rdname ring_reducer
#' @export
ring_reducer_close <- function(reducer) {
  check_given(reducer)
  invisible(.Call(C_reducer_close, reducer))
}
