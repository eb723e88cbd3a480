# SPDX-License-Identifier: Apache-2.0
#
# Progress of a rank. ring_progress() prints a report as a line in the output of the rank. The
# task of the rank removes the line from the output (spark-log-lines.R), and the caller shows
# a progress bar (spark-progress-bar.R). Python's comm.progress() does the same.

progress_interval <- 0.1 # seconds between two reports; earlier reports are dropped
progress_longest <- 4000L # bytes of a report; a pipe takes this number of bytes in one piece

#' Report progress of a rank, for a progress bar
#'
#' `ring_progress()` reports a step of this rank. [ring_apply()] and [ring_run()] show the reports
#' as a progress bar, if their argument `progress` is `TRUE`. Elsewhere `ring_progress()` only
#' checks its arguments. Not collective: any rank may call it at any time, and one rank is enough.
#'
#' @details
#' The bar shows the smallest step of all ranks that report. Its metrics are those of the lowest of
#' these ranks; on Spark they are those of rank 0. On Spark the executors' logs have a line every
#' five seconds. A report less than 0.1 seconds after another is dropped, unless `step` equals
#' `total`.
#'
#' @inheritParams ring_rank
#' @param step The number of the step that is complete, one finite number.
#' @param total The number of steps, one finite number. `NULL`: unknown.
#' @param ... Metrics to show: numbers with names, such as `loss = 0.25`.
#' @returns `NULL`, invisibly.
#' @section Errors:
#' `ring_error_invalid` for a value that is not a number, and for metrics without a name or of more
#' than 4000 bytes in all.
#' @seealso [ring_apply()] and [ring_run()], for `progress`.
#' @examples
#' comm <- ring_init()
#' for (step in 1:10) ring_progress(comm, step, 10, loss = 1 / step)
#' ring_close(comm)
#'
#' \donttest{
#' # In two processes of this machine:
#' ring_run(NULL, function(comm) {
#'   for (step in 1:10) ring_progress(comm, step, 10)
#' }, num_proc = -2)
#' }
#' @export
ring_progress <- function(comm, step, total = NULL, ...) {
  check_given(comm, step)
  ring_rank(comm)
  metrics <- list(...)
  report <- progress_check(step, total, metrics)
  if (!run_state$supervised) return(invisible())
  now <- .Call(C_clock_seconds)
  if (now - run_state$reported < progress_interval && !identical(report$step, report$total)) {
    return(invisible())
  }
  run_state$reported <- now
  flush(stdout())
  .Call(C_stdio_write, 1L, charToRaw(paste0(lines_mark, progress_write(report), "\n")), TRUE)
  invisible()
}

progress_check <- function(step, total, metrics) {
  call <- sys.call(-1)
  numeric <- function(x) is.numeric(x) && length(x) == 1L
  bound <- function(x, name) {
    if (is_number(x)) return(as.double(x))
    check_stop("`", name, "` must be one finite number, not ", describe(x), call = call)
  }
  report <- list(
    step = bound(step, "step"), total = if (is.null(total)) NA_real_ else bound(total, "total")
  )
  if (length(metrics) > 0L && (is.null(names(metrics)) || !all(nzchar(names(metrics))))) {
    check_stop("`...` must have names, such as loss = 0.25", call = call)
  }
  for (name in names(metrics)) {
    if (!numeric(metrics[[name]])) {
      check_stop("`", name, "` must be one number, not ", describe(metrics[[name]]), call = call)
    }
  }
  report$metrics <- vapply(metrics, as.double, 0)
  if (nchar(progress_write(report), "bytes") > progress_longest) {
    check_stop("the report of ", length(metrics), " metrics takes more than ", progress_longest,
               " bytes: pass fewer metrics or shorter names", call = call)
  }
  report
}

# Formats a report as one line of text. Names are escaped, so they have no space.
progress_write <- function(report) {
  names <- vapply(names(report$metrics), utils::URLencode, "", reserved = TRUE)
  metrics <- rbind(names, sprintf("%.17g", report$metrics))
  paste(c(sprintf("%.17g", c(report$step, report$total)), metrics), collapse = " ")
}

# Parses a line, which may contain anything; NULL if the line is no report.
progress_read <- function(line) {
  tryCatch(suppressWarnings(progress_parse(line)), error = function(error) NULL)
}

progress_parse <- function(line) {
  words <- strsplit(line, " ", fixed = TRUE)[[1L]]
  if (length(words) < 2L || length(words) %% 2L != 0L) return(NULL)
  pairs <- matrix(words, nrow = 2L)
  bounds <- as.double(pairs[, 1L])
  if (!is.finite(bounds[[1L]]) || is.infinite(bounds[[2L]])) return(NULL)
  metrics <- as.double(pairs[2L, -1L])
  if (length(metrics) > 0L) {
    names(metrics) <- vapply(pairs[1L, -1L], utils::URLdecode, "", USE.NAMES = FALSE)
  }
  list(step = bounds[[1L]], total = bounds[[2L]], metrics = metrics)
}

progress_text <- function(report) {
  step <- paste("step", format(report$step, digits = 15L))
  if (!is.na(report$total)) step <- paste(step, "of", format(report$total, digits = 15L))
  toString(c(step, progress_metrics(report$metrics)))
}

progress_metrics <- function(metrics) {
  sprintf("%s %s", names(metrics), formatC(unname(metrics), digits = 4L, width = 1L))
}
