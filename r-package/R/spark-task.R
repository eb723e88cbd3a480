# SPDX-License-Identifier: Apache-2.0
#
# The task of a rank: the R process that Spark has started. It forks a child, which is the
# rank. It copies the output of the child to the log, and keeps the last lines for an error. It
# always returns a result to Spark, also when the child is killed or crashes. The tasks of all
# ranks end together (spark-exit-barrier.R).

task_most <- 2^20 # bytes to read after the child has ended; its children may still print

# Returns the result of a rank. `job` comes from the driver, and `barrier` from sparklyr.
task_run <- function(df, job, barrier) {
  rank <- as.integer(barrier$partition)
  state <- list2env(list(
    rank = rank, parent = child_parent(), rank_result = NULL, failed = NULL, report = NULL,
    gone = FALSE, local = isTRUE(job$local), sends = FALSE
  ))
  if (!state$local && !is.null(job$results)) {
    job$folder <- folder_create()
    on.exit(folder_remove(job$folder))
  }
  printed <- task_reader(state, job)
  child <- tryCatch({
    file <- task_file(df, job)
    child_start(function() task_child(file, job, barrier))
  }, error = function(error) {
    state$rank_result <- rank_result_of_error(rank, error)
    NULL
  })
  on.exit(if (!is.null(child)) {
    child_kill(child)
    child_close_output(child)
  }, add = TRUE, after = FALSE)
  if (rank == 0L && !is.null(job$log_server)) {
    state$forwarder <- log_forwarder_start(job$log_server)
    on.exit(log_forwarder_stop(state$forwarder), add = TRUE)
    state$send <- function(report) log_forwarder_send(state$forwarder, report)
  }
  exit_barrier_run(state, child, printed, exit_barrier_join(state, job, barrier))
  if (is.null(state$rank_result)) state$rank_result <- task_unfinished(state)
  if (state$sends) state$rank_result <- results_send(state, job, length(barrier$address))
  state$rank_result$log <- printed$last()
  task_log(state$rank_result$failure, isTRUE(job$local) || !is.null(job$reports))
  state$rank_result
}

# Opens the file with the rows of the rank, whose name is in `df`. It stays open in this process,
# which ends with the rank. NULL for ring_run().
task_file <- function(df, job) {
  if (!is.null(job$kinds)) .Call(C_batch_file_open, as.character(df[[1L]][[1L]]))
}

# Makes a reader of the output of the rank, which writes the lines to the output of this process.
# Without Spark it writes a report of progress for the process that has started this one, and on
# PySpark to the pipe `reports`. On sparklyr it prints reports as lines for the log, every few
# seconds.
task_reader <- function(state, job) {
  print <- function(lines) {
    .Call(C_stdio_write, 2L, charToRaw(paste0(lines, "\n", collapse = "")), TRUE)
  }
  write_report <- if (!is.null(job$reports)) {
    function(report) {
      .Call(C_stdio_write, job$reports, charToRaw(paste0(progress_write(report), "\n")), TRUE)
    }
  } else if (isTRUE(job$local)) {
    function(report) print(paste0(lines_mark, progress_write(report)))
  } else {
    progress_printer(print)
  }
  lines_reader(print, function(report) {
    state$report <- report
    write_report(report)
  })
}

# Writes the failure to the log, unless the driver shows the output of the ranks besides the error.
task_log <- function(failure, shown) {
  if (is.null(failure) || shown) return()
  cat("sparkring: this rank ", failure$what, ": ", failure$message, "\n", failure$traceback, "\n",
      sep = "", file = stderr())
}

# Reads the output of the child until the round is over or the child has ended.
task_watch <- function(state, child, printed, pause) {
  until <- .Call(C_clock_seconds) + pause
  repeat {
    left <- until - .Call(C_clock_seconds)
    bytes <- child_output(child, max(0, left))
    while (length(bytes) > 0L) {
      printed$feed(bytes)
      bytes <- if (.Call(C_clock_seconds) < until) child_output(child, 0)
    }
    if (is.null(state$rank_result) && child_ended(child)) {
      state$rank_result <- task_result(state$rank, child, state$local)
      printed$feed(task_rest(child))
      printed$finish()
    }
    if (!is.null(state$rank_result) || .Call(C_clock_seconds) >= until) break
    if (is.null(bytes)) Sys.sleep(min(pause, 0.01)) # the child has closed its output, but not ended
  }
}

# Reads the rest of the output of a child that has ended.
task_rest <- function(child) {
  rest <- raw()
  while (length(rest) < task_most && length(bytes <- child_output(child, 0)) > 0L) {
    rest <- c(rest, bytes)
  }
  child_close_output(child)
  rest
}

task_result <- function(rank, child, local) {
  value <- child$value
  if (is.list(value) && !is.null(value$rank)) return(value)
  why <- if (inherits(value, "try-error")) {
    paste("could not return its result:", conditionMessage(attr(value, "condition")))
  } else {
    rank_result_advise(paste("its R process", child_how(child)), local)
  }
  rank_result_lost(rank, why)
}

# The result of a rank that had not finished when all ranks were ended.
task_unfinished <- function(state) {
  if (!is.null(state$broken)) return(rank_result_of_error(state$rank, state$broken))
  if (state$gone) {
    return(rank_result_lost(
      state$rank, "the call on the driver has ended",
      what = "was ended before it had finished"
    ))
  }
  rank_result_lost(
    state$rank, "another rank had failed", what = "was ended before it had finished",
    weight = .Call(C_blame_weight, "ABORTED")
  )
}
