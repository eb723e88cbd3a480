# SPDX-License-Identifier: Apache-2.0
#
# The ranks' end of the connection to the driver (spark-log-server.R). The supervisor of rank 0 forks a
# process that forwards reports of progress. The forwarder and the log server are a ring of two, with
# a token of its own, always encrypted. The end of the server tells the forwarder that nobody wants
# the results of the ranks any more. No rank waits for the forwarder: where the driver cannot be
# reached, or does not read, the job runs without it.

log_forwarder_connect <- 60 # seconds for the driver to be reached
log_forwarder_beat <- 1 # seconds between two looks whether it is still there
log_forwarder_reset <- c(104L, 54L) # ECONNRESET of Linux and macOS
log_forwarder_drain <- 1 # for it to take the rest

# Ranks 0 (the driver) and 1 of the ring.
log_forwarder_ring <- function(rank, endpoint, timeout) {
  ring_init(
    rank = rank, size = 2, root_address = endpoint$host, token = endpoint$token,
    job = "sparkring progress", timeout = timeout, call_timeout = 1e8, warn_after = 0,
    shared_memory = FALSE, connections = 1, encryption = TRUE
  )
}

# A process that passes on what log_forwarder_send() says; its `child` is NULL where there is none.
log_forwarder_start <- function(endpoint) {
  pipe <- .Call(C_stdio_open)
  run <- function() log_forwarder_run(pipe, endpoint)
  child <- tryCatch(child_start(run), error = function(error) NULL)
  list2env(list(pipe = pipe, child = child, used = FALSE))
}

# Whether the driver's end was met, and is no more.
log_forwarder_lost <- function(forwarder) {
  child <- forwarder$child
  !is.null(child) && child_ended(child) && identical(child$value, "lost")
}

# Whether a line has broken because the other process has ended, and not by a network that fails.
log_forwarder_hung_up <- function(error) is.na(error$errno) || error$errno %in% log_forwarder_reset

# Sends the latest report, those between are left out when they come too fast; and an empty one when
# there is none, which finds out whether the driver's end is there. "lost" when it is no more.
log_forwarder_run <- function(pipe, endpoint) {
  .Call(C_stdio_close, pipe[[2L]])
  latest <- NULL
  reader <- lines_reader(function(lines) latest <<- utils::tail(lines, 1L))
  ring <- log_forwarder_ring(1, endpoint, log_forwarder_connect)
  repeat {
    bytes <- .Call(C_stdio_read, pipe[[1L]], log_forwarder_beat)[[1L]]
    if (is.null(bytes)) break
    reader$feed(bytes)
    text <- if (is.null(latest)) raw() else charToRaw(latest)
    report <- c(text, raw(progress_longest - length(text)))
    failed <- tryCatch(ring_send(ring, report, 0), ring_error = identity)
    if (inherits(failed, "ring_error")) return(if (log_forwarder_hung_up(failed)) "lost")
    latest <- NULL
  }
  ring_close(ring)
}

# Never waits: what there is no room for is dropped. This process can read from the pipe as well, so
# no signal comes when the other one has ended.
log_forwarder_send <- function(forwarder, report) {
  forwarder$used <- TRUE
  .Call(C_stdio_write, forwarder$pipe[[2L]], charToRaw(paste0(progress_write(report), "\n")), FALSE)
}

log_forwarder_stop <- function(forwarder) {
  .Call(C_stdio_close, forwarder$pipe)
  if (is.null(forwarder$child)) return()
  child_end_within(forwarder$child, if (forwarder$used) log_forwarder_drain else 0)
}
