# SPDX-License-Identifier: Apache-2.0
#
# State of the run that a communicator belongs to. ring_apply() and ring_run() set the state in the
# process of a rank, before they call the function. Elsewhere there is one attempt. Python's
# _run_state.py does the same.

run_state <- new.env(parent = emptyenv())
run_state$attempt <- 0L
run_state$executor <- FALSE # whether this process has a working directory of its own
run_state$supervised <- FALSE # whether a task reads reports of progress
run_state$reported <- -Inf # time of the last report, by C_clock_seconds

#' Attempt: how often the ranks were restarted
#'
#' With `max_restarts`, [ring_apply()] and [ring_run()] launch all ranks again after a rank has
#' failed. `ring_attempt()` returns the number of the current attempt. Not collective: any rank may
#' call it.
#'
#' @inheritParams ring_rank
#' @returns One integer: 0 in the first attempt, 1 after the first restart, and so on. Outside of
#'   [ring_apply()] and [ring_run()] it is 0.
#' @seealso [ring_checkpoint()], to continue from a saved state; [ring_apply()].
#' @examples
#' comm <- ring_init()
#' ring_attempt(comm)
#' ring_close(comm)
#' @export
ring_attempt <- function(comm) {
  check_given(comm)
  ring_rank(comm)
  run_state$attempt
}
