# SPDX-License-Identifier: Apache-2.0
#
# The way of progress from Spark to the driver's terminal. sparklyr keeps R waiting for the job, so
# a process of its own shows the bar: forked from the driver's, and killed with it. It and one that
# the supervisor of rank 0 forks at the first report are a ring of two, with a token of its own and
# always encrypted, on which reports travel as text of one length. Nothing waits for it: who cannot
# be reached shows no bar.

relay_meet <- 60 # seconds for the driver to be reached
relay_rest <- 1 # for it to take the rest
relay_last <- 0.2 # for it to show that

# Ranks 0 (the driver) and 1 of the ring.
relay_open <- function(rank, told, timeout) {
  ring_init(
    rank = rank, size = 2, root_address = told$host, token = told$token,
    job = "sparkring progress", timeout = timeout, call_timeout = 1e8, warn_after = 0,
    shared_memory = FALSE, lanes = 1, encryption = TRUE
  )
}

# ---- On the driver ------------------------------------------------------------------------------

# A process that shows what is reported; `told` is what rank 0 needs to find it at `host`.
relay_listen <- function(host, captured = FALSE) {
  told <- list(host = host, token = apply_random(32))
  list(told = told, child = child_start(function() relay_show(told), captured))
}

relay_show <- function(told) {
  display <- progress_display()
  on.exit(display$close())
  show <- function() {
    ring <- relay_open(0, told, timeout = 1e8)
    repeat {
      bytes <- ring_recv(ring, raw(progress_longest), 1)
      report <- progress_read(rawToChar(bytes[bytes != 0L]))
      if (!is.null(report)) display$report(0L, report)
    }
  }
  tryCatch(show(), ring_error = function(error) NULL) # the end
}

relay_unlisten <- function(listener) relay_leave(listener$child, relay_last)

# Ends a process when it has had a moment to end itself.
relay_leave <- function(child, seconds) {
  until <- proc.time()[["elapsed"]] + seconds
  while (!child_ended(child) && proc.time()[["elapsed"]] < until) Sys.sleep(0.01)
  child_kill(child)
  child_hang_up(child)
}

# ---- On an executor -----------------------------------------------------------------------------

# A process that passes on what relay_tell() says; NULL where there is none.
relay_start <- function(told) {
  pipe <- .Call(C_capture_open)
  child <- tryCatch(child_start(function() relay_pass(pipe, told)), error = function(error) NULL)
  list(pipe = pipe, child = child)
}

# Sends the latest report; those between are left out when they come too fast.
relay_pass <- function(pipe, told) {
  .Call(C_capture_close, pipe[[2L]])
  latest <- NULL
  reader <- lines_reader(function(lines) latest <<- utils::tail(lines, 1L))
  ring <- relay_open(1, told, relay_meet)
  repeat {
    bytes <- .Call(C_capture_read, pipe[[1L]], 60)[[1L]]
    if (is.null(bytes)) break
    reader$feed(bytes)
    if (!is.null(latest)) {
      text <- charToRaw(latest)
      ring_send(ring, c(text, raw(progress_longest - length(text))), 0)
    }
    latest <- NULL
  }
  ring_close(ring)
}

# Never waits: what there is no room for is dropped. This process can read from the pipe as well, so
# no signal comes when the other one has ended.
relay_tell <- function(relay, report) {
  .Call(C_capture_write, relay$pipe[[2L]], charToRaw(paste0(progress_write(report), "\n")), FALSE)
}

relay_end <- function(relay) {
  .Call(C_capture_close, relay$pipe)
  if (!is.null(relay$child)) relay_leave(relay$child, relay_rest)
}
