# SPDX-License-Identifier: Apache-2.0
#
# The line between the call on the driver and its ranks in Spark. sparklyr keeps R waiting for the
# job, so a process of its own is the driver's end: forked from the driver's, and killed when the
# call has its results. It and one that the supervisor of rank 0 forks are a ring of two, with a
# token of its own and always encrypted. Progress comes to the driver's terminal on it, as text of
# one length; and its end tells the ranks that nobody wants their results any more. sparklyr does
# not: it cancels the job, but its tasks wait for R, which knows nothing of that. R takes seconds to
# start on the executors, so after an interrupt the driver's end stays for ranks that come later,
# and ends when they have met it. Nothing waits for the line: where the driver cannot be reached, or
# is silent, the job runs without.

relay_meet <- 60 # seconds for the driver to be reached
relay_stay <- 120 # seconds for ranks to come after the call has ended
relay_beat <- 1 # seconds between two looks whether it is still there
relay_reset <- c(104L, 54L) # ECONNRESET of Linux and macOS
relay_rest <- 1 # for it to take the rest
relay_last <- 0.2 # for it to show that

# Ranks 0 (the driver) and 1 of the ring.
relay_open <- function(rank, told, timeout) {
  ring_init(
    rank = rank, size = 2, root_address = told$host, token = told$token,
    job = "sparkring progress", timeout = timeout, call_timeout = 1e8, warn_after = 0,
    shared_memory = FALSE, connections = 1, encryption = TRUE
  )
}

# ---- On the driver ------------------------------------------------------------------------------

# A process that takes what is reported, and may show it; `told` is what rank 0 needs to find it at
# `host`. NULL where it cannot be started.
relay_listen <- function(host, shows = TRUE, captured = FALSE) {
  relay_sweep()
  told <- list(host = host, token = apply_random(32))
  child <- tryCatch(
    child_start(function() relay_show(told, shows), captured),
    error = function(error) NULL
  )
  if (!is.null(child)) list(told = told, shows = shows, child = child)
}

relay_show <- function(told, shows) {
  display <- progress_display(shows)
  on.exit(display$close())
  show <- function() {
    ring <<- relay_open(0, told, timeout = 1e8)
    repeat {
      bytes <- ring_recv(ring, raw(progress_longest), 1)
      report <- progress_read(rawToChar(bytes[bytes != 0L]))
      if (!is.null(report)) try(display$report(0L, report), silent = TRUE) # which ends nothing
    }
  }
  ring <- NULL
  tryCatch(show(), ring_error = function(error) NULL, interrupt = function(condition) {
    if (is.null(ring)) try(relay_open(0, told, relay_stay), silent = TRUE)
    tools::pskill(Sys.getpid(), tools::SIGKILL) # else parallel waits for its parent to look
  }) # the end
}

# `over` says that the call has its results; else ranks may be at work, or still to come.
relay_unlisten <- function(listener, over = TRUE) {
  if (is.null(listener)) return()
  if (over) {
    relay_leave(listener$child, if (listener$shows) relay_last else 0)
  } else {
    tools::pskill(listener$child$process$pid, tools::SIGINT)
    relay_staying$children <- c(relay_staying$children, list(listener$child))
  }
}

relay_staying <- new.env(parent = emptyenv())

# Forgets the processes that have ended.
relay_sweep <- function() {
  relay_staying$children <- Filter(Negate(child_ended), relay_staying$children)
}

# Ends a process when it has had a moment to end itself.
relay_leave <- function(child, seconds) {
  until <- .Call(C_clock_seconds) + seconds
  while (!child_ended(child) && .Call(C_clock_seconds) < until) Sys.sleep(0.01)
  child_kill(child)
  child_hang_up(child)
}

# ---- On an executor -----------------------------------------------------------------------------

# A process that passes on what relay_tell() says; its `child` is NULL where there is none.
relay_start <- function(told) {
  pipe <- .Call(C_capture_open)
  child <- tryCatch(child_start(function() relay_pass(pipe, told)), error = function(error) NULL)
  list2env(list(pipe = pipe, child = child, used = FALSE))
}

# Whether the driver's end was met, and is no more.
relay_lost <- function(relay) {
  !is.null(relay$child) && child_ended(relay$child) && identical(relay$child$value, "lost")
}

# Whether a line has broken because the other process has ended, and not by a network that fails.
relay_hung_up <- function(error) is.na(error$errno) || error$errno %in% relay_reset

# Sends the latest report, those between are left out when they come too fast; and an empty one when
# there is none, which finds out whether the driver's end is there. "lost" when it is no more.
relay_pass <- function(pipe, told) {
  .Call(C_capture_close, pipe[[2L]])
  latest <- NULL
  reader <- lines_reader(function(lines) latest <<- utils::tail(lines, 1L))
  ring <- relay_open(1, told, relay_meet)
  repeat {
    bytes <- .Call(C_capture_read, pipe[[1L]], relay_beat)[[1L]]
    if (is.null(bytes)) break
    reader$feed(bytes)
    text <- if (is.null(latest)) raw() else charToRaw(latest)
    report <- c(text, raw(progress_longest - length(text)))
    failed <- tryCatch(ring_send(ring, report, 0), ring_error = identity)
    if (inherits(failed, "ring_error")) return(if (relay_hung_up(failed)) "lost")
    latest <- NULL
  }
  ring_close(ring)
}

# Never waits: what there is no room for is dropped. This process can read from the pipe as well, so
# no signal comes when the other one has ended.
relay_tell <- function(relay, report) {
  relay$used <- TRUE
  .Call(C_capture_write, relay$pipe[[2L]], charToRaw(paste0(progress_write(report), "\n")), FALSE)
}

relay_end <- function(relay) {
  .Call(C_capture_close, relay$pipe)
  if (!is.null(relay$child)) relay_leave(relay$child, if (relay$used) relay_rest else 0)
}
