# SPDX-License-Identifier: Apache-2.0
#
# The driver's end of the connection to the ranks. sparklyr keeps R waiting for the job, so a process
# that is forked from the driver's R runs the log server. The log server shows progress. The end of
# its process also tells rank 0 that the call has ended: sparklyr cancels the job, but the R of its
# tasks goes on. After an interrupt the server stays for ranks whose R still starts, because R takes
# seconds to start on an executor. The server ends when rank 0 has connected to it.

log_server_stay <- 120 # seconds for ranks to connect after the call has ended
log_server_drain <- 0.2 # seconds for the server to show the last report

# A process that takes what is reported, and may show it; `endpoint` is what rank 0 needs to find it at
# `host`. NULL where it cannot be started.
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
      if (!is.null(report)) try(display$report(0L, report), silent = TRUE) # which ends nothing
    }
  }
  ring <- NULL
  tryCatch(show(), ring_error = function(error) NULL, interrupt = function(condition) {
    if (is.null(ring)) try(log_forwarder_ring(0, endpoint, log_server_stay), silent = TRUE)
    tools::pskill(Sys.getpid(), tools::SIGKILL) # else parallel waits for its parent to look
  }) # the end
}

# `over` says that the call has its results; else ranks may be at work, or still to come.
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

# Forgets the processes that have ended.
log_server_sweep <- function() {
  log_server_left$children <- Filter(Negate(child_ended), log_server_left$children)
}
