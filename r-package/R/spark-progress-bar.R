# SPDX-License-Identifier: Apache-2.0
#
# The progress bar of ring_apply() and ring_run(): a bar of cli, or, without cli or a terminal, a
# line every few seconds. Python's spark/_progress_bar.py does the same.

progress_print_interval <- 5 # seconds between two lines without a bar

# Makes a function that passes a report as text to `print`, at most every five seconds. The report
# of the last step is always passed.
progress_printer <- function(print) {
  printed <- -Inf
  function(report) {
    now <- .Call(C_clock_seconds)
    last <- identical(report$step, report$total)
    if (now - printed < progress_print_interval && !last) return(invisible())
    printed <<- now
    print(paste0("sparkring: ", progress_text(report)))
  }
}

# The bar of the driver. report() takes the report of a rank, line() prints a line above the bar,
# and close() ends the bar.
progress_bar <- function(wanted = TRUE) {
  reports <- list() # of the ranks, by name
  bar <- NULL
  print_line <- progress_printer(function(text) message(text))
  with_cli <- requireNamespace("cli", quietly = TRUE) && cli::is_dynamic_tty()
  scope <- environment()
  report <- function(rank, report) {
    if (!wanted) return()
    reports[[as.character(rank)]] <<- report
    steps <- vapply(reports, `[[`, 0, "step")
    lowest <- reports[[as.character(min(as.integer(names(reports))))]]
    shown <- list(step = min(steps), total = report$total, metrics = lowest$metrics)
    if (!with_cli) return(print_line(shown))
    if (is.null(bar)) bar <<- progress_bar_cli(shown, scope)
    cli::cli_progress_update(
      id = bar, set = shown$step, total = shown$total, .envir = scope, force = TRUE,
      extra = list(metrics = toString(progress_metrics(shown$metrics)))
    )
  }
  line <- function(rank, lines) {
    text <- paste0("[", rank, "] ", lines)
    if (is.null(bar)) return(writeLines(text))
    cli::cli_verbatim(text, .envir = scope)
  }
  restart <- function() reports <<- list() # the ranks are launched again
  close <- function() { # the result "done" would draw a full bar wherever the ranks have stopped
    if (!is.null(bar)) cli::cli_progress_done(id = bar, .envir = scope, result = "failed")
    bar <<- NULL
  }
  list(report = report, line = line, restart = restart, close = close)
}

progress_bar_cli <- function(report, scope) {
  cli::cli_progress_bar(
    total = report$total, clear = FALSE, .auto_close = FALSE, .envir = scope,
    format = if (is.na(report$total)) {
      "{cli::pb_spin} step {cli::pb_current} {cli::pb_extra$metrics}"
    } else {
      "{cli::pb_bar} {cli::pb_current}/{cli::pb_total} {cli::pb_extra$metrics}"
    },
    extra = list(metrics = "")
  )
}
