# SPDX-License-Identifier: Apache-2.0
#
# Failures, interrupts and restarts of ring_apply() and ring_run().

# nolint start: object_usage_linter. testthat provides these functions.
expect_failure <- function(sc) {
  error <- tryCatch(
    ring_run(sc, of_script(function(comm, culprit) {
      ring_barrier(comm)
      message("I am rank ", ring_rank(comm))
      if (ring_rank(comm) == culprit) stop("rank one has had enough")
      while (ring_rank(comm) > culprit) sqrt(2) # until it is ended
      ring_allreduce(comm, 1)
    }), culprit = 1, num_proc = 3),
    ring_error_remote = identity
  )
  expect_s3_class(error, "ring_error_remote")
  expect_identical(error$rank, 1L)
  expect_match(conditionMessage(error), "^rank 1 on .* failed: rank one has had enough")
  expect_match(error$traceback, "f(comm, culprit = args[[1L]])", fixed = TRUE)
  expect_identical(error$log, "I am rank 1")
}

# Ctrl-C at the driver: no rank goes on, and there is room for others at once.
expect_interrupt <- function(sc) {
  file <- tempfile("pids")
  on.exit(unlink(file))
  ended <- tryCatch(
    ring_run(sc, of_script(function(comm, file, driver) {
      cat(sprintf("%d\n", Sys.getpid()), file = file, append = TRUE) # in one piece
      ring_barrier(comm)
      Sys.sleep(10) # the link to the driver is open
      if (ring_rank(comm) == 0) tools::pskill(driver, tools::SIGINT)
      repeat sqrt(2)
    }), file = file, driver = Sys.getpid(), num_proc = 2),
    interrupt = function(condition) "interrupted"
  )
  expect_identical(ended, "interrupted")
  pids <- readLines(file)
  expect_length(pids, 2)
  expect_ended(pids, seconds = 30)
  # Replies that nobody has read, as interrupted waits of sparklyr leave them.
  request <- utils::getFromNamespace("write_bin_args", "sparklyr")
  for (text in c("stale", "sparklyr")) request(sc$backend, "Handler", TRUE, "echo", list(text))
  sums <- ring_run(sc, of_script(function(comm) ring_allreduce(comm, 1)), num_proc = 3)
  expect_identical(sums, list(3, 3, 3))
}

# Ctrl-C while R still starts on the executors: no rank goes on.
expect_early_interrupt <- function(sc) {
  system2("sh", c("-c", shQuote(paste("sleep 1.5; kill -INT", Sys.getpid()))), wait = FALSE)
  ended <- tryCatch(
    ring_run(sc, of_script(function(comm) repeat sqrt(2)), num_proc = 3),
    interrupt = function(condition) "interrupted"
  )
  expect_identical(ended, "interrupted")
  sums <- suppressMessages( # a loaded machine takes long
    ring_run(sc, of_script(function(comm) ring_allreduce(comm, 1)), num_proc = 3, timeout = 120)
  )
  expect_identical(sums, list(3, 3, 3))
}

# The process that Spark has started is killed, so Spark alone can report it.
expect_lost <- function(sc) {
  error <- tryCatch(
    ring_run(sc, of_script(function(comm) {
      ring_barrier(comm)
      Sys.sleep(5) # the processes that supervise the ranks are connected
      if (ring_rank(comm) == 1) tools::pskill(sparkring:::child_parent(), tools::SIGKILL)
      ring_barrier(comm)
    }), num_proc = 2),
    ring_error_remote = identity
  )
  expect_match(conditionMessage(error), paste(
    "^rank 1 on [^ ]+ was lost: its R process was killed by SIGKILL [(]status 137[)] [(]probably",
    "out of memory: raise spark.executor.memoryOverhead[)]$"
  ))
}

# A rank is killed, the next time another fails, and the third time all goes well; each time all
# know what was before.
expect_restarts <- function(sc) {
  path <- tempfile("checkpoint")
  on.exit(unlink(path, recursive = TRUE))
  expect_message(expect_message(
    attempts <- ring_run(sc, of_script(function(comm, path) {
      attempt <- ring_attempt(comm)
      checkpoint <- ring_checkpoint(comm, path)
      before <- ring_restore(checkpoint, default = integer())
      ring_save(checkpoint, c(before, attempt))
      ring_barrier(comm)
      if (attempt == 0 && ring_rank(comm) == 1) tools::pskill(Sys.getpid(), 9)
      if (attempt == 1 && ring_rank(comm) == 0) stop("again")
      list(ring_allreduce(comm, attempt), before)
    }), path = path, num_proc = 2, max_restarts = 2),
    "rank 1 on .* was lost: .*; launching all ranks again \\(1 of 2 times\\)"
  ), "rank 0 on .* failed: again \\(attempt 1\\); launching all ranks again \\(2 of 2 times\\)")
  expect_identical(attempts, rep(list(list(4L, 0:1)), 2))
}
# nolint end

test_that("ring_apply() and ring_run() end, and leave nothing, after a failure", {
  sc <- spark_connection("local[3]")
  expect_failure(sc)
  expect_interrupt(sc)
  expect_early_interrupt(sc)
  views <- sparklyr::invoke(sparklyr::invoke(sparklyr::spark_session(sc), "catalog"), "listTables")
  names <- as.data.frame(sparklyr::sdf_collect(sparklyr::sdf_register(sparklyr::invoke(
    views, "toDF"
  ))))$name
  expect_false(any(startsWith(names, "sparkring_")))
  expect_error(
    ring_run(sc, sum, num_proc = 4), "local\\[3\\] has 3: 3 cores / 1 per task",
    class = "ring_error_invalid"
  )
  expect_restarts(sc)
})

test_that("ring_apply() and ring_run() end after the failure of one of two executors", {
  sc <- spark_connection("local-cluster[2,2,1024]")
  expect_failure(sc)
  expect_interrupt(sc)
  expect_lost(sc)
})
