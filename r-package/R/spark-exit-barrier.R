# SPDX-License-Identifier: Apache-2.0
#
# The exit barrier: the ranks of an attempt wait for each other before their Spark tasks end. Their
# tasks form a ring of their own, and reduce the state of all ranks in rounds.
#
# A rank that fails breaks the communicator, so ranks in a collective call fail at once. Ranks that
# compute have `exit_barrier_grace` seconds. Then all tasks end their ranks, in the same
# round. They end their ranks at once when the call on the driver has ended (spark-log-forwarder.R).
# In Python's spark/_exit_barrier.py the barrier is the close of the ring of the tasks.

exit_barrier_grace <- 5 # seconds from a failure until the other ranks are ended
exit_barrier_pauses <- c(0.005, 0.2) # seconds of the first and of the longest round
exit_barrier_job <- "sparkring tasks"

# Runs rounds until all ranks have ended or are to be ended.
exit_barrier_run <- function(state, child, printed, ring) {
  pause <- exit_barrier_pauses[[1L]]
  repeat {
    if (!is.null(child)) task_watch(state, child, printed, pause)
    if (child_parent() != state$parent) { # the executor has ended
      if (!is.null(child)) child_kill(child)
      quit("no", status = 1L)
    }
    state$gone <- state$gone || log_forwarder_lost(state$forwarder)
    ring <- exit_barrier_round(state, ring)
    if (state$all_ended || state$due) break
    longer <- min(1.5 * pause, exit_barrier_pauses[[2L]])
    pause <- if (state$changed) exit_barrier_pauses[[1L]] else longer
  }
  if (!is.null(ring)) tryCatch(ring_close(ring), ring_error = function(error) NULL)
}

# Opens the ring of the tasks, while the ranks open theirs. NULL where there is none.
exit_barrier_join <- function(state, job, barrier) {
  if (length(barrier$address) < 2L) return(NULL)
  tryCatch(
    ring_init(
      barrier,
      token = job$token, job = paste(c(exit_barrier_job, job$options$job), collapse = " "),
      timeout = job$options$timeout, ports = job$options$ports, warn_after = 0,
      encryption = job$options$encryption, shared_memory = FALSE, connections = 1,
      backend = "native", timeline = ""
    ),
    ring_error = function(error) {
      exit_barrier_broken(state, error)
      NULL
    }
  )
}

# Records that the ring of the tasks is broken. From then on the task knows the state of
# its own rank only, and ends the rank after the grace period.
exit_barrier_broken <- function(state, error) {
  state$broken <- error
  if (is.null(state$failed)) state$failed <- .Call(C_clock_seconds)
}

# The state of this rank, as a vector for a minimum over all ranks. The minima have these meanings:
# all ranks have ended, a rank has ended, a rank has failed, ranks must be ended; the smallest step
# and total of the progress; and a rank has a value to send (spark-results.R).
exit_barrier_own <- function(state, now) {
  ended <- !is.null(state$rank_result)
  failed <- !is.null(state$rank_result$failure)
  if (failed && is.null(state$failed)) state$failed <- now
  due <- state$gone || !is.null(state$failed) && now - state$failed > exit_barrier_grace
  steps <- if (is.null(state$report)) c(NA, NA) else c(state$report$step, state$report$total)
  steps[is.na(steps)] <- Inf
  c(ended, -ended, -failed, -due, steps, -isTRUE(state$rank_result$waits))
}

# Runs one round. Returns the ring, or NULL when the ring is broken.
exit_barrier_round <- function(state, ring) {
  now <- .Call(C_clock_seconds)
  own <- exit_barrier_own(state, now)
  all <- own
  if (!is.null(ring)) {
    all <- tryCatch(ring_allreduce(ring, own, "min"), ring_error = function(error) {
      exit_barrier_broken(state, error)
      ring <<- NULL
      own
    })
  }
  if (all[[3L]] < 0 && is.null(state$failed)) state$failed <- now
  alone <- is.null(ring) # the ring is broken, or this is a world of one
  state$changed <- !identical(all[2:3], state$known) || (own[[1L]] == 1 && alone)
  state$known <- all[2:3]
  state$all_ended <- all[[1L]] == 1
  state$due <- all[[4L]] < 0
  state$sends <- state$all_ended && !state$due && all[[3L]] == 0 && all[[7L]] < 0
  exit_barrier_report(state, all[5:6])
  ring
}

# Sends a report to the driver when the smallest step of all ranks has changed.
exit_barrier_report <- function(state, steps) {
  if (is.null(state$send) || identical(steps, state$steps)) return()
  state$steps <- steps
  total <- if (is.finite(steps[[2L]])) steps[[2L]] else NA_real_
  if (is.finite(steps[[1L]])) {
    state$send(list(step = steps[[1L]], total = total, metrics = state$report$metrics))
  }
}
