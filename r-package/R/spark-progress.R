# SPDX-License-Identifier: Apache-2.0
#
# Progress of a rank. ring_progress() prints a report as a line of its own in the output of the
# rank. The supervisor of the rank takes the line out (spark-log-lines.R), and the caller shows a
# bar (spark-progress-bar.R). Python's comm.progress() does the same.

progress_often <- 0.1 # seconds between two reports; earlier reports are dropped
progress_longest <- 4000L # bytes of a report: a pipe takes so many in one piece

#' Report progress of a rank, for a progress bar
#'
#' With `progress`, the caller of [ring_apply()] or [ring_run()] sees a bar. It shows the least step
#' of the ranks that report, with the metrics of the lowest such rank, or on Spark of rank 0. The
#' executors' logs have a line every five seconds. Outside of these functions nothing happens.
#'
#' Not collective: any rank may call it at any time, and one rank alone suffices. Of reports less
#' than 0.1 seconds apart only the first and the last step count.
#'
#' @inheritParams ring_rank
#' @param step The number of the step that is done.
#' @param total The number of steps. `NULL`: unknown.
#' @param ... Further numbers to show, by name, such as `loss = 0.25`.
#' @returns `NULL`, invisibly.
#' @section Errors:
#' `ring_error_invalid` for a value that is not a number, and for metrics without a name or of more
#' than 4000 bytes in all.
#' @seealso [ring_run()]
#' @examples
#' comm <- ring_init()
#' for (step in 1:10) ring_progress(comm, step, 10, loss = 1 / step)
#' ring_close(comm)
#'
#' \donttest{
#' # Two processes of this machine.
#' ring_run(NULL, function(comm) {
#'   for (step in 1:10) ring_progress(comm, step, 10)
#' }, num_proc = -2)
#' }
#' @export
ring_progress <- function(comm, step, total = NULL, ...) {
  ring_rank(comm)
  metrics <- list(...)
  report <- progress_check(step, total, metrics)
  if (!run_state$supervised) return(invisible())
  now <- .Call(C_clock_seconds)
  if (now - run_state$reported < progress_often && !identical(report$step, report$total)) {
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
    check_stop("this report of ", length(metrics), " metrics takes more than ", progress_longest,
               " bytes", call = call)
  }
  report
}

# Formats a report as one line of text. Names are escaped, so they have no space.
progress_write <- function(report) {
  names <- vapply(names(report$metrics), utils::URLencode, "", reserved = TRUE)
  metrics <- rbind(names, sprintf("%.17g", report$metrics))
  paste(c(sprintf("%.17g", c(report$step, report$total)), metrics), collapse = " ")
}

# Parses a line; NULL when it is no report, whatever it contains.
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
