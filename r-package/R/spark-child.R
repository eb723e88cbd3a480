# SPDX-License-Identifier: Apache-2.0
#
# A forked child process and its output. The package parallel forks the child, because it prepares R
# for that. The output of the child goes to a pipe (src/stdio_redirect.h). The child has a process
# group of its own, and Linux kills the child when this process ends.

child_closing <- 2 # seconds from the end of a child's pipe to the end of the child

# Starts a child that evaluates code() and sends its value. A child that is not captured prints
# where this process does. A time limit of this process ends this process, which then ends the
# child.
child_start <- function(code, captured = TRUE) {
  pipe <- if (captured) .Call(C_stdio_open)
  parent <- Sys.getpid()
  process <- tryCatch(
    parallel::mcparallel(
      {
        .Call(C_stdio_enter, pipe, parent)
        setTimeLimit()
        setSessionTimeLimit()
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

# The process id of the parent, or of the process that has adopted this one.
child_parent <- function() .Call(C_child_parent)

# Reads what the child has printed, after `seconds` at most, as a raw vector. NULL when the child
# has closed its output.
child_output <- function(child, seconds) {
  if (is.na(child$output)) return(NULL)
  bytes <- .Call(C_stdio_read, child$output, seconds)[[1L]]
  if (is.null(bytes)) child_close_output(child)
  bytes
}

child_close_output <- function(child) {
  if (!is.na(child$output)) .Call(C_stdio_close, child$output)
  child$output <- NA_integer_
}

# Whether the child has ended. Then child$value is the value that the child sent, or NULL. parallel
# detects the end of a killed child only when no process holds its pipe, so not before the children
# of the child have ended. Therefore they are killed, too.
child_ended <- function(child) {
  if (child$ended) return(TRUE)
  if (child$captured && is.na(child$output)) Sys.sleep(0.01) # the child may be about to end
  gone <- .Call(C_child_gone, child$process$pid) # first, because reading the pipe reaps the child
  sent <- suppressWarnings(parallel::mccollect(child$process, wait = FALSE))
  if (length(sent) == 0L && gone) {
    .Call(C_child_kill, child$process$pid)
    sent <- suppressWarnings(parallel::mccollect(child$process, wait = FALSE, timeout = 1))
    child$ended <- TRUE
  }
  if (length(sent) == 0L && !child$ended) return(FALSE)
  if (length(sent) > 0L) child$value <- sent[[1L]]
  if (is.null(child$value)) child_wait(child) else child_reap(child)
  child$code <- .Call(C_child_end, child$process$pid)
  child$ended <- TRUE
}

# Waits until a child that has closed its pipe has ended, so that the kernel knows how.
child_wait <- function(child) {
  until <- .Call(C_clock_seconds) + child_closing
  while (!.Call(C_child_gone, child$process$pid) && .Call(C_clock_seconds) < until) Sys.sleep(0.01)
}

child_reap <- function(child) suppressWarnings(parallel::mccollect(child$process))

# Kills the child, whatever it does.
child_kill <- function(child) {
  if (child$ended) return()
  .Call(C_child_kill, child$process$pid)
  child_reap(child)
  .Call(C_child_end, child$process$pid)
  child$ended <- TRUE
}

# Kills a child that has not ended by itself after `seconds`.
child_end_within <- function(child, seconds) {
  until <- .Call(C_clock_seconds) + seconds
  while (!child_ended(child) && .Call(C_clock_seconds) < until) Sys.sleep(0.01)
  child_kill(child)
  child_close_output(child)
}

# Describes how a child ended that has sent no value.
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
