# SPDX-License-Identifier: Apache-2.0
#
# Timelines: each rank writes the events of its communicator into a file (core/bindings/trace.h).
# Python's start_timeline does the same, and draws pictures.

#' Record the calls and waits of every rank
#'
#' `ring_timeline_start()` records, on every rank, into one file of the rank: its calls, their waits
#' for other ranks, the frames that go over links, and the time of started calls in the queue. Every
#' rank calls it. The files are in Chrome's JSON format and valid at any time, also after a crash. A
#' process that is killed loses the last 50 ms. A thread of each rank writes the file, so calls do
#' not wait for the disk. `ring_timeline_stop()`, [ring_close()] and [ring_abort()] write the last
#' events and end the timeline; it also ends after 256 MiB.
#'
#' `ring_timeline_merge()` makes one trace of the files, for <https://ui.perfetto.dev>. Python's
#' `python -m sparkring timeline DIR -o out.svg` draws a picture, with a lane for each rank.
#'
#' The argument `timeline` of [ring_init()], [ring_apply()], [ring_run()] and [ring_launch()], and
#' the variable `SPARKRING_TIMELINE`, record the whole life of the communicator.
#'
#' The ranks of a host have one clock. The clocks of hosts are compared once, at the start. The
#' error is half of the shortest of 32 round trips between two hosts; the file states it. Clocks
#' that drift apart later are not corrected.
#'
#' @inheritParams ring_rank
#' @param path The directory, which is made if it does not exist. A directory that all hosts share
#'   has the files of all ranks; otherwise each host has the files of its ranks. A second timeline
#'   of the same communicator in the same directory replaces the first.
#' @param mark_cycles Whether the cycles of a reducer are marked, as `CYCLE_START`.
#' @param file The trace to write.
#' @returns `ring_timeline_start()` and `ring_timeline_stop()` return `NULL`, invisibly.
#'   `ring_timeline_merge()` returns `file`, invisibly.
#' @section Errors:
#' `ring_error_system` when the file cannot be made, or the last events not be written; the other
#' ranks get `ring_error_invalid` with the reason of a file that cannot be made, and the
#' communicator stays usable. `ring_error_invalid` when the communicator has a timeline already, and
#' when `path` has no timelines to merge. See [ring_error].
#' @seealso [ring_counters()]; `vignette("performance")`.
#' @examples
#' comm <- ring_init()
#' directory <- tempfile("timeline")
#' ring_timeline_start(comm, directory)
#' ring_allreduce(comm, c(1, 2))
#' ring_timeline_stop(comm)
#' ring_close(comm)
#' trace <- ring_timeline_merge(directory)
#' grep("allreduce", readLines(trace), value = TRUE)
#' @export
ring_timeline_start <- function(comm, path, mark_cycles = FALSE) {
  check_given(comm, path)
  if (!is_string(path)) {
    check_stop("`path` must be one string, not ", describe(path), call = sys.call())
  }
  mark_cycles <- check_flag(mark_cycles, "mark_cycles")
  clock <- .Call(C_trace_measure_clock, comm)
  agree(comm, {
    path <- path.expand(path)
    dir.create(path, showWarnings = FALSE, recursive = TRUE)
    .Call(C_trace_start, comm, path, clock, mark_cycles)
  })
  invisible()
}

#' @rdname ring_timeline_start
#' @export
ring_timeline_stop <- function(comm) {
  check_given(comm)
  failed <- .Call(C_trace_stop, comm)
  if (!is.null(failed)) ring_stop("SYSTEM", paste("the timeline lacks its last events:", failed))
  invisible()
}

#' @rdname ring_timeline_start
#' @export
ring_timeline_merge <- function(path, file = file.path(path, "timeline.json")) {
  check_given(path)
  if (!is_string(path)) {
    check_stop("`path` must be one string, not ", describe(path), call = sys.call())
  }
  files <- timeline_files(path)
  if (length(files) == 0L) {
    check_stop(path, " has no timeline of a rank, which is called rank-*.json", call = sys.call())
  }
  timeline_join(files, file)
  invisible(file)
}

# The files of the last communicator that was recorded into a directory, by rank.
timeline_files <- function(path) {
  files <- sort(list.files(path, "^rank-[0-9]+-[0-9a-f]{16}[.]json$", full.names = TRUE))
  epochs <- sub(".*-", "", files)
  files[epochs == epochs[which.max(as.numeric(file.mtime(files)))]]
}

# Each file is an array with one event a line, with "," before all but the first.
timeline_join <- function(files, file) {
  lines <- lapply(files, readLines, encoding = "UTF-8", warn = FALSE)
  events <- unlist(lapply(lines, grep, pattern = "^,?[{].*[}] *$", value = TRUE))
  events <- sub("^,", "", events)
  commas <- c("", rep(",", length(events) - 1L))
  writeLines(c("[", paste0(commas, events), "]"), file, useBytes = TRUE)
}

# Joins the timelines of a run where this process sees the files of all its ranks.
timeline_merge_run <- function(path) {
  if (is.null(path) || !nzchar(path)) return()
  files <- timeline_files(path)
  if (length(files) == 0L) return()
  size <- as.integer(sub('.*"size":([0-9]+).*', "\\1", readLines(files[[1L]], 2L)[[2L]]))
  if (length(files) == size) timeline_join(files, file.path(path, "timeline.json"))
}

# A path that means the same in another directory.
timeline_absolute <- function(path) {
  if (!nzchar(path) || grepl("^[/~]", path)) path.expand(path) else file.path(getwd(), path)
}

# The directory of `timeline`, or of the environment. "" for none.
timeline_directory <- function(timeline) {
  timeline <- check_string(timeline, "timeline")
  if (is.null(timeline)) Sys.getenv("SPARKRING_TIMELINE") else timeline
}

# Starts the timeline of a communicator that was opened with one.
timeline_begin <- function(comm, directory) {
  if (!nzchar(directory)) return()
  begun <- FALSE
  on.exit(if (!begun) ring_abort(comm, "its timeline cannot be written"))
  ring_timeline_start(comm, directory)
  begun <- TRUE
}
