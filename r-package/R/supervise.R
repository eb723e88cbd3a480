# SPDX-License-Identifier: Apache-2.0
#
# The supervisor of a rank: the R process that Spark has started, which forks the one that does the
# work. It reads what that prints, to the log and for the error, and has always something to say to
# Spark, also when the rank's process is killed or crashes. Supervisors form a ring of their own,
# and tell each other in rounds who has ended. One that has failed has broken the ring of the ranks,
# which those in a call of it hear; the others, who are computing, have `supervise_grace` seconds.
# Then all ranks are ended, in the same round; and so they are, at once, when the call on the driver
# has ended (relay.R). Python's ranks settle alike, over connections to rank 0.

supervise_grace <- 5 # seconds from a failure until ranks that are still at work are ended
supervise_pauses <- c(0.005, 0.2) # seconds of a round: the first, the longest
supervise_most <- 2^20 # bytes that are read of a child that has ended: others may go on printing
supervise_job <- "sparkring supervisors"

# The outcome of a rank; `job` is what the driver has sent, and `barrier` sparklyr's.
supervise_rank <- function(df, job, barrier) {
  rank <- as.integer(barrier$partition)
  state <- list2env(list(
    rank = rank, parent = child_parent(), outcome = NULL, failed = NULL, report = NULL,
    gone = FALSE, local = isTRUE(job$local), sends = FALSE
  ))
  if (!state$local && !is.null(job$results)) {
    job$folder <- results_folder()
    on.exit(unlink(job$folder, recursive = TRUE))
  }
  printed <- supervise_printer(state, isTRUE(job$local))
  child <- tryCatch(child_start(function() rank_child(df, job, barrier)), error = function(error) {
    state$outcome <- outcome_of_error(rank, error)
    NULL
  })
  on.exit(if (!is.null(child)) {
    child_kill(child)
    child_hang_up(child)
  }, add = TRUE, after = FALSE)
  if (rank == 0L && !is.null(job$relay)) {
    state$relay <- relay_start(job$relay)
    on.exit(relay_end(state$relay), add = TRUE)
    state$tell <- function(report) relay_tell(state$relay, report)
  }
  supervise_rounds(state, child, printed, supervise_join(state, job, barrier))
  if (is.null(state$outcome)) state$outcome <- supervise_left(state)
  if (state$sends) state$outcome <- results_send(state, job, length(barrier$address))
  state$outcome$log <- printed$last()
  supervise_log(state$outcome$failure, isTRUE(job$local))
  state$outcome
}

# Until all ranks have ended, or are to be ended.
supervise_rounds <- function(state, child, printed, ring) {
  pause <- supervise_pauses[[1L]]
  repeat {
    if (!is.null(child)) supervise_watch(state, child, printed, pause)
    if (child_parent() != state$parent) { # the executor has ended
      if (!is.null(child)) child_kill(child)
      quit("no", status = 1L)
    }
    state$gone <- state$gone || relay_lost(state$relay)
    ring <- supervise_tell(state, ring)
    if (state$all_ended || state$due) break
    pause <- if (state$changed) supervise_pauses[[1L]] else min(1.5 * pause, supervise_pauses[[2L]])
  }
  if (!is.null(ring)) tryCatch(ring_close(ring), ring_error = function(error) NULL)
}

# Reads what the rank prints, to the log of this process. The reports of progress go on to who has
# started it here, or are a line from time to time.
supervise_printer <- function(state, local) {
  print <- function(lines) {
    .Call(C_capture_write, 2L, charToRaw(paste0(lines, "\n", collapse = "")), TRUE)
  }
  tell <- if (local) {
    function(report) print(paste0(lines_mark, progress_write(report)))
  } else {
    progress_teller(print)
  }
  lines_reader(print, function(report) {
    state$report <- report
    tell(report)
  })
}

# The log has how a rank has failed; here the error says it.
supervise_log <- function(failure, local) {
  if (is.null(failure) || local) return()
  cat("sparkring: this rank ", failure$what, ": ", failure$message, "\n", failure$traceback, "\n",
      sep = "", file = stderr())
}

# The ring of the supervisors, NULL where there is none. It is formed while the ranks form theirs.
supervise_join <- function(state, job, barrier) {
  if (length(barrier$address) < 2L) return(NULL)
  tryCatch(
    ring_init(
      barrier,
      token = job$token, job = paste(c(supervise_job, job$options$job), collapse = " "),
      timeout = job$options$timeout, ports = job$options$ports, warn_after = 0,
      encryption = job$options$encryption, shared_memory = FALSE, connections = 1
    ),
    ring_error = function(error) {
      supervise_broken(state, error)
      NULL
    }
  )
}

# Nobody can be asked any more: what this rank says itself counts, if it comes soon.
supervise_broken <- function(state, error) {
  state$broken <- error
  if (is.null(state$failed)) state$failed <- .Call(C_clock_seconds)
}

# Reads what the child prints until the round is over, or the child has ended.
supervise_watch <- function(state, child, printed, pause) {
  until <- .Call(C_clock_seconds) + pause
  repeat {
    left <- until - .Call(C_clock_seconds)
    bytes <- child_output(child, max(0, left))
    while (length(bytes) > 0L) {
      printed$feed(bytes)
      bytes <- if (.Call(C_clock_seconds) < until) child_output(child, 0)
    }
    if (is.null(state$outcome) && child_ended(child)) {
      state$outcome <- supervise_outcome(state$rank, child, state$local)
      printed$feed(supervise_rest(child))
      printed$finish()
    }
    if (!is.null(state$outcome) || .Call(C_clock_seconds) >= until) break
    if (is.null(bytes)) Sys.sleep(min(pause, 0.01)) # it has closed its output, but not ended
  }
}

# What a child that has ended has left to read.
supervise_rest <- function(child) {
  rest <- raw()
  while (length(rest) < supervise_most && length(bytes <- child_output(child, 0)) > 0L) {
    rest <- c(rest, bytes)
  }
  child_hang_up(child)
  rest
}

supervise_outcome <- function(rank, child, local) {
  value <- child$value
  if (is.list(value) && !is.null(value$rank)) return(value)
  why <- if (inherits(value, "try-error")) {
    paste("could not tell how it ended:", conditionMessage(attr(value, "condition")))
  } else {
    outcome_advise(paste("its R process", child_how(child)), local)
  }
  outcome_lost(rank, why)
}

# The state of a rank, of which the ranks take the minimum: whether all have ended, one has, one has
# failed, they are to be ended; the step and the total of the progress; and whether one has a value
# to send (results.R).
supervise_own <- function(state, now) {
  ended <- !is.null(state$outcome)
  failed <- !is.null(state$outcome$failure)
  if (failed && is.null(state$failed)) state$failed <- now
  due <- state$gone || !is.null(state$failed) && now - state$failed > supervise_grace
  steps <- if (is.null(state$report)) c(NA, NA) else c(state$report$step, state$report$total)
  steps[is.na(steps)] <- Inf
  c(ended, -ended, -failed, -due, steps, -isTRUE(state$outcome$waits))
}

# The round: what all ranks have come to. Gives the ring, or NULL when there is none any more.
supervise_tell <- function(state, ring) {
  now <- .Call(C_clock_seconds)
  own <- supervise_own(state, now)
  all <- own
  if (!is.null(ring)) {
    all <- tryCatch(ring_allreduce(ring, own, "min"), ring_error = function(error) {
      supervise_broken(state, error)
      ring <<- NULL
      own
    })
  }
  if (all[[3L]] < 0 && is.null(state$failed)) state$failed <- now
  alone <- is.null(ring) # of a ring that is broken, or a world of one
  state$changed <- !identical(all[2:3], state$known) || (own[[1L]] == 1 && alone)
  state$known <- all[2:3]
  state$all_ended <- all[[1L]] == 1
  state$due <- all[[4L]] < 0
  state$sends <- state$all_ended && !state$due && all[[3L]] == 0 && all[[7L]] < 0
  supervise_report(state, all[5:6])
  ring
}

# Tells the driver when the least step of all ranks has changed.
supervise_report <- function(state, steps) {
  if (is.null(state$tell) || identical(steps, state$steps)) return()
  state$steps <- steps
  total <- if (is.finite(steps[[2L]])) steps[[2L]] else NA_real_
  if (is.finite(steps[[1L]])) {
    state$tell(list(step = steps[[1L]], total = total, metrics = state$report$metrics))
  }
}

# The outcome of a rank that was still at work when all were ended.
supervise_left <- function(state) {
  if (!is.null(state$broken)) return(outcome_of_error(state$rank, state$broken))
  if (state$gone) {
    return(outcome_lost(
      state$rank, "the call on the driver has ended",
      what = "was ended at its work"
    ))
  }
  outcome_lost(
    state$rank, "another rank had failed", what = "was ended at its work",
    weight = outcome_weights[["ABORTED"]]
  )
}
