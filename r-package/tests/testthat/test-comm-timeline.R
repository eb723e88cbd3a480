# SPDX-License-Identifier: Apache-2.0

skip_on_cran() # starts many processes

calls <- function(file, name) {
  sum(grepl(paste0('"name":"', name, '","cat":"call"'), readLines(file), fixed = TRUE))
}

local_directory <- function(env = parent.frame()) {
  directory <- tempfile("timeline")
  do.call(on.exit, list(bquote(unlink(.(directory), recursive = TRUE)), add = TRUE), envir = env)
  directory
}

test_that("the files of the ranks have the calls between start and stop", {
  directory <- local_directory()
  run_ring(2, {
    ring_allgather(comm, 1)
    ring_timeline_start(comm, directory)
    for (i in 1:5) ring_barrier(comm)
    ring_timeline_stop(comm)
    ring_allgather(comm, 1)
  }, directory = directory)
  files <- timeline_files(directory)
  expect_length(files, 2)
  for (file in files) {
    expect_identical(calls(file, "barrier"), 5L)
    expect_identical(calls(file, "allgather"), 0L)
  }
  trace <- ring_timeline_merge(directory)
  expect_identical(calls(trace, "barrier"), 10L)
  lines <- readLines(trace)
  expect_identical(lines[c(1, length(lines))], c("[", "]"))
  expect_match(lines[3:(length(lines) - 1L)], "^,[{].*[}]$")
  expect_match(lines[[2]], "rank 0 (127.0.0.1)", fixed = TRUE)
})

test_that("a rank that cannot write is an error on all ranks", {
  directory <- local_directory()
  file <- tempfile()
  on.exit(unlink(file))
  file.create(file)
  run_ring(2, {
    bad <- if (ring_rank(comm) == 1) file.path(file, "in") else directory
    expect <- if (ring_rank(comm) == 1) "ring_error_system" else "ring_error_invalid"
    error <- tryCatch(ring_timeline_start(comm, bad), error = identity)
    stopifnot(inherits(error, expect), grepl("Not a directory", conditionMessage(error)))
    ring_timeline_stop(comm)
    ring_timeline_start(comm, directory)
    again <- tryCatch(ring_timeline_start(comm, directory), error = identity)
    stopifnot(grepl("there is a timeline already", conditionMessage(again)))
    ring_barrier(comm)
  }, file = file, directory = directory)
  expect_length(timeline_files(directory), 2)
  expect_error(ring_timeline_merge(tempdir()), "has no timeline", class = "ring_error_invalid")
  expect_error(ring_timeline_start(NULL, 1), "`path` must be one string")
})

test_that("ring_run() merges the timelines, and ring_init() reads the environment", {
  directory <- local_directory()
  ring_run(NULL, function(comm) ring_allreduce(comm, 1), num_proc = -2, timeline = directory,
           progress = FALSE)
  expect_identical(calls(file.path(directory, "timeline.json"), "allreduce") >= 2L, TRUE)
  unlink(directory, recursive = TRUE)
  Sys.setenv(SPARKRING_TIMELINE = directory)
  on.exit(Sys.unsetenv("SPARKRING_TIMELINE"), add = TRUE)
  ring_close(ring_init(timeline = ""))
  expect_false(dir.exists(directory))
  ring_close(ring_init())
  expect_length(timeline_files(directory), 1)
})

test_that("ring_launch() passes the directory on", {
  directory <- local_directory()
  code <- c("sh", "-c", "echo $SPARKRING_TIMELINE")
  printed <- capture.output(ring_launch(code, n = 1, timeline = directory))
  expect_identical(printed, paste("[0]", directory))
})
