# SPDX-License-Identifier: Apache-2.0
#
# A child process, and what it prints: forked by parallel, which knows what a forked R must not do,
# with a pipe of ours as its output (src/capture.h). It has a process group of its own, and Linux
# kills it when this process ends.

# Starts a child that evaluates code() and sends what that returns. One that is not captured prints
# where this process does.
child_start <- function(code, captured = TRUE) {
  pipe <- if (captured) .Call(C_stdio_open)
  parent <- Sys.getpid()
  process <- tryCatch(
    parallel::mcparallel(
      {
        .Call(C_stdio_enter, pipe, parent)
        value <- code()
        if (captured) .Call(C_stdio_leave)
        value
      },
      mc.set.seed = FALSE
    ),
    error = function(error) {
      if (captured) .Call(C_stdio_close, pipe)
      stop(error)
    }
  )
  .Call(C_child_watch, process$pid)
  if (captured) .Call(C_stdio_close, pipe[[2L]])
  output <- if (captured) pipe[[1L]] else NA_integer_
  list2env(list(
    process = process, captured = captured, output = output, value = NULL, ended = FALSE, code = NA
  ))
}

# The process that has started this one, or whoever took it in after that has ended.
child_parent <- function() .Call(C_child_parent)

# What the child has printed, after `seconds` at most, as a raw vector; NULL when there will be no
# more.
child_output <- function(child, seconds) {
  if (is.na(child$output)) return(NULL)
  bytes <- .Call(C_stdio_read, child$output, seconds)[[1L]]
  if (is.null(bytes)) child_hang_up(child)
  bytes
}

child_hang_up <- function(child) {
  if (!is.na(child$output)) .Call(C_stdio_close, child$output)
  child$output <- NA_integer_
}

# Whether it has ended; then child$value is what it has sent, and NULL if it could not. parallel
# sees the end of one that is killed when nobody can write to its pipe, and so not before the
# children that it has forked itself have ended. These are killed, too.
child_ended <- function(child) {
  if (child$ended) return(TRUE)
  if (child$captured && is.na(child$output)) Sys.sleep(0.01) # it may be about to end
  gone <- .Call(C_child_gone, child$process$pid) # before the pipe is read, which reaps it
  sent <- suppressWarnings(parallel::mccollect(child$process, wait = FALSE))
  if (length(sent) == 0L && gone) {
    .Call(C_child_kill, child$process$pid)
    sent <- suppressWarnings(parallel::mccollect(child$process, wait = FALSE, timeout = 1))
    child$ended <- TRUE
  }
  if (length(sent) == 0L && !child$ended) return(FALSE)
  if (length(sent) > 0L) child$value <- sent[[1L]]
  if (!is.null(child$value)) child_reap(child)
  child$code <- .Call(C_child_end, child$process$pid)
  child$ended <- TRUE
}

child_reap <- function(child) suppressWarnings(parallel::mccollect(child$process))

# Ends it, whatever it is at.
child_kill <- function(child) {
  if (child$ended) return()
  .Call(C_child_kill, child$process$pid)
  child_reap(child)
  .Call(C_child_end, child$process$pid)
  child$ended <- TRUE
}

# Ends a process when it has had a moment to end itself.
child_end_within <- function(child, seconds) {
  until <- .Call(C_clock_seconds) + seconds
  while (!child_ended(child) && .Call(C_clock_seconds) < until) Sys.sleep(0.01)
  child_kill(child)
  child_hang_up(child)
}

# How a child that has sent nothing ended, in words.
child_how <- function(child) {
  code <- child$code
  if (is.na(code)) return("was killed, has crashed or has called quit()")
  if (code == 0L) return("ended without a result, with exit code 0: it may have called quit()")
  if (code > 0L) return(paste("failed with exit code", code))
  name <- names(child_signals)[match(-code, child_signals)]
  paste("was killed by", if (is.na(name)) paste("signal", -code) else name)
}

child_signals <- c(
  SIGHUP = 1L, SIGINT = 2L, SIGQUIT = 3L, SIGILL = 4L, SIGABRT = 6L, SIGFPE = 8L, SIGKILL = 9L,
  SIGSEGV = 11L, SIGPIPE = 13L, SIGTERM = 15L
)
