# SPDX-License-Identifier: Apache-2.0
#
# ring_run() without Spark: processes of this machine.

skip_on_cran() # starts and kills processes

test_that("ring_run() runs processes of this machine, and shows what they print", {
  printed <- capture.output(values <- ring_run(NULL, of_script(function(comm, x) {
    cat("hello\n")
    ring_allreduce(comm, x + ring_rank(comm))
  }), x = 2, num_proc = -3))
  expect_identical(values, list(9, 9, 9))
  expect_setequal(printed, paste0("[", 0:2, "] hello"))
  table <- ring_run(NULL, of_script(function(comm) data.frame(n = ring_size(comm))), num_proc = -1)
  expect_identical(as.list(table), list(rank = 0L, n = 1L))
})

test_that("what a rank prints as its last is shown", {
  child <- child_start(function() {
    Sys.sleep(1)
    .Call(C_stdio_write, 1L, charToRaw("last\n"), TRUE)
  })
  # It prints and ends behind a look at its output that finds nothing.
  watch <- local_watch
  environment(watch) <- list2env(list(child_ended = function(child) {
    while (!child_ended(child)) Sys.sleep(0.01)
    TRUE
  }), parent = environment(watch))
  printed <- raw()
  reader <- list(
    feed = function(bytes) printed <<- c(printed, bytes),
    finish = function() printed <<- c(printed, charToRaw("."))
  )
  watch(list(child), list(reader))
  expect_identical(rawToChar(printed), "last\n.")
})

test_that("output that nobody reads is dropped without an error", {
  pipe <- .Call(C_stdio_open)
  on.exit(.Call(C_stdio_close, pipe[[2L]]))
  .Call(C_stdio_close, pipe[[1L]])
  expect_null(.Call(C_stdio_write, pipe[[2L]], charToRaw("lost\n"), TRUE))
})

test_that("its errors and restarts are those of Spark's ranks", {
  f <- of_script(function(comm) {
    attempt <- ring_attempt(comm)
    cat("attempt", attempt, "\n")
    if (attempt == 0 && ring_rank(comm) == 1) tools::pskill(Sys.getpid(), tools::SIGKILL)
    if (attempt == 1 && ring_rank(comm) == 0) stop("again")
    ring_allreduce(comm, attempt)
  })
  run <- function(max_restarts) {
    ring_run(NULL, f, num_proc = -2, max_restarts = max_restarts)
  }
  capture.output({
    expect_message(
      expect_message(values <- run(2), "rank 1 on .* was lost: .*; launching all ranks again"),
      "rank 0 on .* failed: again \\(attempt 1\\); launching all ranks again \\(2 of 2 times\\)"
    )
    error <- suppressMessages(tryCatch(run(1), ring_error_remote = identity))
  })
  expect_identical(values, list(4L, 4L))
  expect_identical(error[c("rank", "attempt", "log")],
                   list(rank = 0L, attempt = 1L, log = "attempt 1 "))
  expect_match(error$traceback, "1. f(comm)", fixed = TRUE)
})

test_that("an interrupt ends the processes, and leaves nothing behind", {
  file <- tempfile("pids")
  before <- list.files(tempdir(), "^sparkring")
  f <- of_script(function(comm, file, driver) {
    cat(sprintf("%d\n", Sys.getpid()), file = file, append = TRUE) # in one piece
    ring_barrier(comm)
    if (ring_rank(comm) == 0) tools::pskill(driver, tools::SIGINT)
    repeat sqrt(2)
  })
  ended <- tryCatch(
    ring_run(NULL, f, file = file, driver = Sys.getpid(), num_proc = -2),
    interrupt = function(condition) "interrupted"
  )
  expect_identical(ended, "interrupted")
  pids <- readLines(file)
  expect_length(pids, 2)
  expect_ended(pids, seconds = 10)
  expect_identical(list.files(tempdir(), "^sparkring"), before)
})

test_that("a killed driver leaves no file", {
  temporary <- tempfile("driver")
  dir.create(temporary)
  script <- quote({
    f <- function(comm) {
      ring_barrier(comm)
      repeat Sys.sleep(0.1)
    }
    sparkring::ring_run(NULL, f, num_proc = -2)
  })
  driver <- child_start(function() {
    Sys.setenv(TMPDIR = temporary)
    .Call(C_child_become, c(file.path(R.home("bin"), "Rscript"), "-e", deparse1(script, "\n")))
  }, captured = FALSE)
  on.exit(child_kill(driver))
  wait_for_files <- function(there) {
    deadline <- Sys.time() + 60
    repeat {
      files <- list.files(temporary, "^job.rds$", recursive = TRUE)
      if (length(files) == there || Sys.time() > deadline) return(length(files))
      Sys.sleep(0.1)
    }
  }
  expect_identical(wait_for_files(1L), 1L)
  tools::pskill(driver$process$pid, tools::SIGKILL)
  expect_identical(wait_for_files(0L), 0L)
})

test_that("a rank that returns early is reported at once", {
  f <- of_script(function(comm) if (ring_rank(comm) > 0) ring_allreduce(comm, 1))
  begin <- Sys.time()
  expect_error(
    ring_run(NULL, f, num_proc = -2, options = list(call_timeout = 300)), "close",
    class = "ring_error_mismatch"
  )
  expect_lt(as.numeric(Sys.time() - begin, units = "secs"), 100)
})

test_that("ranks may end later than the call timeout", {
  f <- of_script(function(comm) {
    rest <- ring_comm_split(comm, as.integer(ring_rank(comm) > 0))
    if (ring_rank(comm) > 0) for (i in 1:8) {
      ring_barrier(rest)
      Sys.sleep(0.5)
    }
    ring_close(rest)
    ring_rank(comm)
  })
  values <- ring_run(NULL, f, num_proc = -3, options = list(call_timeout = 2))
  expect_identical(values, list(0L, 1L, 2L))
})
