# SPDX-License-Identifier: Apache-2.0
#
# Failures, interrupts and restarts of ring_apply() and ring_run().

# nolint start: object_usage_linter. testthat provides these functions.
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
