# SPDX-License-Identifier: Apache-2.0
#
# The log forwarder: a process that the task of rank 0 forks. It sends reports of progress to
# the log server on the driver (spark-log-server.R). The forwarder and the log server are a ring of
# two ranks, always encrypted, with a token of its own.
#
# When the server ends, the forwarder reports that the call on the driver has ended. No rank waits
# for the forwarder: if the driver cannot be reached, or does not read, the job runs without it.

log_forwarder_connect <- 60 # seconds to connect to the driver
log_forwarder_heartbeat <- 1 # seconds between two messages, by which the forwarder detects the end
log_forwarder_reset <- c(104L, 54L) # ECONNRESET of Linux and macOS
log_forwarder_drain <- 1 # seconds for the forwarder to send the last report

# Opens the ring of the log server, rank 0, and the forwarder, rank 1.
log_forwarder_ring <- function(rank, endpoint, timeout) {
  ring_init(
    rank = rank, size = 2, root_address = endpoint$host, token = endpoint$token,
    job = "sparkring progress", timeout = timeout, call_timeout = 1e8, warn_after = 0,
    shared_memory = FALSE, connections = 1, encryption = TRUE, backend = "native",
    timeline = ""
  )
}

# Starts the forwarder. `child` is NULL where no process can be started.
log_forwarder_start <- function(endpoint) {
  pipe <- .Call(C_stdio_open)
  run <- function() log_forwarder_run(pipe, endpoint)
  child <- tryCatch(child_start(run), error = function(error) NULL)
  list2env(list(pipe = pipe, child = child, used = FALSE))
}

# Whether the forwarder was connected to the server, and the server has ended.
log_forwarder_lost <- function(forwarder) {
  child <- forwarder$child
  !is.null(child) && child_ended(child) && identical(child$value, "lost")
}

# Whether a call failed because the other process has ended, and not because the network failed.
log_forwarder_peer_ended <- function(error) {
  is.na(error$errno) || error$errno %in% log_forwarder_reset
}

# Forwards the latest report every second, and drops older reports. Without a report it sends an
# empty message, to detect the end of the server. Returns "lost" when the server has ended.
log_forwarder_run <- function(pipe, endpoint) {
  .Call(C_stdio_close, pipe[[2L]])
  latest <- NULL
  reader <- lines_reader(function(lines) latest <<- utils::tail(lines, 1L))
  ring <- log_forwarder_ring(1, endpoint, log_forwarder_connect)
  repeat {
    bytes <- .Call(C_stdio_read, pipe[[1L]], log_forwarder_heartbeat)[[1L]]
    if (is.null(bytes)) break
    reader$feed(bytes)
    text <- if (is.null(latest)) raw() else charToRaw(latest)
    report <- c(text, raw(progress_longest - length(text)))
    failed <- tryCatch(ring_send(ring, report, 0), ring_error = identity)
    if (inherits(failed, "ring_error")) return(if (log_forwarder_peer_ended(failed)) "lost")
    latest <- NULL
  }
  ring_close(ring)
}

# Passes a report to the forwarder. Never blocks: a report that does not fit into the pipe is
# dropped. This process also holds the reading end of the pipe, so the end of the forwarder raises
# no SIGPIPE.
log_forwarder_send <- function(forwarder, report) {
  forwarder$used <- TRUE
  .Call(C_stdio_write, forwarder$pipe[[2L]], charToRaw(paste0(progress_write(report), "\n")), FALSE)
}

log_forwarder_stop <- function(forwarder) {
  .Call(C_stdio_close, forwarder$pipe)
  if (is.null(forwarder$child)) return()
  child_end_within(forwarder$child, if (forwarder$used) log_forwarder_drain else 0)
}
