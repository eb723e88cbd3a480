# SPDX-License-Identifier: Apache-2.0
#
# The supervisor of a rank: the R process that Spark has started. It forks a child that does the
# work, reads what the child prints, into the log and for the error, and returns a result to Spark
# in any case, also when the child is killed or crashes. The supervisors of all ranks agree when to
# end (spark-exit-barrier.R).

supervisor_most <- 2^20 # bytes read after the child has ended: its own children may go on printing

# Returns the result of a rank. `job` comes from the driver, and `barrier` from sparklyr.
supervisor_run <- function(df, job, barrier) {
  rank <- as.integer(barrier$partition)
  state <- list2env(list(
    rank = rank, parent = child_parent(), rank_result = NULL, failed = NULL, report = NULL,
    gone = FALSE, local = isTRUE(job$local), sends = FALSE
  ))
  if (!state$local && !is.null(job$results)) {
    job$folder <- results_folder()
    on.exit(unlink(job$folder, recursive = TRUE))
  }
  printed <- supervisor_reader(state, isTRUE(job$local))
  child <- tryCatch(child_start(function() task_child(df, job, barrier)), error = function(error) {
    state$rank_result <- rank_result_of_error(rank, error)
    NULL
  })
  on.exit(if (!is.null(child)) {
    child_kill(child)
    child_hang_up(child)
  }, add = TRUE, after = FALSE)
  if (rank == 0L && !is.null(job$log_server)) {
    state$forwarder <- log_forwarder_start(job$log_server)
    on.exit(log_forwarder_stop(state$forwarder), add = TRUE)
    state$tell <- function(report) log_forwarder_send(state$forwarder, report)
  }
  exit_barrier_run(state, child, printed, exit_barrier_join(state, job, barrier))
  if (is.null(state$rank_result)) state$rank_result <- supervisor_left(state)
  if (state$sends) state$rank_result <- results_send(state, job, length(barrier$address))
  state$rank_result$log <- printed$last()
  supervisor_log(state$rank_result$failure, isTRUE(job$local))
  state$rank_result
}

# Reads what the rank prints, and writes it to the log of this process. A report of progress goes to
# the process that has started this one on the same machine; on Spark it becomes a line from time to
# time.
supervisor_reader <- function(state, local) {
  print <- function(lines) {
    .Call(C_stdio_write, 2L, charToRaw(paste0(lines, "\n", collapse = "")), TRUE)
  }
  tell <- if (local) {
    function(report) print(paste0(lines_mark, progress_write(report)))
  } else {
    progress_printer(print)
  }
  lines_reader(print, function(report) {
    state$report <- report
    tell(report)
  })
}

# Writes the failure to the log. Without Spark the error on the driver has it.
supervisor_log <- function(failure, local) {
  if (is.null(failure) || local) return()
  cat("sparkring: this rank ", failure$what, ": ", failure$message, "\n", failure$traceback, "\n",
      sep = "", file = stderr())
}

# Reads what the child prints until the round is over or the child has ended.
supervisor_watch <- function(state, child, printed, pause) {
  until <- .Call(C_clock_seconds) + pause
  repeat {
    left <- until - .Call(C_clock_seconds)
    bytes <- child_output(child, max(0, left))
    while (length(bytes) > 0L) {
      printed$feed(bytes)
      bytes <- if (.Call(C_clock_seconds) < until) child_output(child, 0)
    }
    if (is.null(state$rank_result) && child_ended(child)) {
      state$rank_result <- supervisor_result(state$rank, child, state$local)
      printed$feed(supervisor_rest(child))
      printed$finish()
    }
    if (!is.null(state$rank_result) || .Call(C_clock_seconds) >= until) break
    if (is.null(bytes)) Sys.sleep(min(pause, 0.01)) # the child has closed its output, but not ended
  }
}

# Reads what is left in the pipe of a child that has ended.
supervisor_rest <- function(child) {
  rest <- raw()
  while (length(rest) < supervisor_most && length(bytes <- child_output(child, 0)) > 0L) {
    rest <- c(rest, bytes)
  }
  child_hang_up(child)
  rest
}

supervisor_result <- function(rank, child, local) {
  value <- child$value
  if (is.list(value) && !is.null(value$rank)) return(value)
  why <- if (inherits(value, "try-error")) {
    paste("could not return its result:", conditionMessage(attr(value, "condition")))
  } else {
    rank_result_advise(paste("its R process", child_how(child)), local)
  }
  rank_result_lost(rank, why)
}

# The result of a rank that was still at work when all ranks were ended.
supervisor_left <- function(state) {
  if (!is.null(state$broken)) return(rank_result_of_error(state$rank, state$broken))
  if (state$gone) {
    return(rank_result_lost(
      state$rank, "the call on the driver has ended",
      what = "was ended at its work"
    ))
  }
  rank_result_lost(
    state$rank, "another rank had failed", what = "was ended at its work",
    weight = .Call(C_blame_weight, "ABORTED")
  )
}
