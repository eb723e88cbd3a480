# SPDX-License-Identifier: Apache-2.0
#
# The log server: receives reports of progress on the driver, and shows them. It is a process that
# is forked from the driver's R, because sparklyr blocks R until the job ends.
#
# Rank 0 also detects the end of the call by the end of the server. That is needed after an
# interrupt: sparklyr cancels the job, but does not end the R processes of the tasks. R takes
# seconds to start on an executor. So after an interrupt the server stays until rank 0 has
# connected.

log_server_stay <- 120 # seconds for rank 0 to connect after the call has ended
log_server_drain <- 0.2 # seconds for the server to show the last report

# Starts the server, which shows progress if `shows` is TRUE. Rank 0 connects to the `endpoint` in
# the result, at `host`. NULL where no process can be started.
log_server_start <- function(host, shows = TRUE, captured = FALSE) {
  log_server_sweep()
  endpoint <- list(host = host, token = random_bytes(32))
  child <- tryCatch(
    child_start(function() log_server_run(endpoint, shows), captured),
    error = function(error) NULL
  )
  if (!is.null(child)) list(endpoint = endpoint, shows = shows, child = child)
}

log_server_run <- function(endpoint, shows) {
  display <- progress_bar(shows)
  on.exit(display$close())
  show <- function() {
    ring <<- log_forwarder_ring(0, endpoint, timeout = 1e8)
    repeat {
      bytes <- ring_recv(ring, raw(progress_longest), 1)
      report <- progress_read(rawToChar(bytes[bytes != 0L]))
      if (!is.null(report)) try(display$report(0L, report), silent = TRUE) # must not end the server
    }
  }
  ring <- NULL
  tryCatch(show(), ring_error = function(error) NULL, interrupt = function(condition) {
    if (is.null(ring)) try(log_forwarder_ring(0, endpoint, log_server_stay), silent = TRUE)
    tools::pskill(Sys.getpid(), tools::SIGKILL) # else parallel waits until its parent reads
  })
}

# Stops the server. `over` is TRUE if the call has its results. Otherwise ranks may still run or
# start.
log_server_stop <- function(server, over = TRUE) {
  if (is.null(server)) return()
  if (over) {
    child_end_within(server$child, if (server$shows) log_server_drain else 0)
  } else {
    tools::pskill(server$child$process$pid, tools::SIGINT)
    log_server_left$children <- c(log_server_left$children, list(server$child))
  }
}

log_server_left <- new.env(parent = emptyenv())

# Forgets the servers that have ended.
log_server_sweep <- function() {
  log_server_left$children <- Filter(Negate(child_ended), log_server_left$children)
}
