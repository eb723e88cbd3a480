# SPDX-License-Identifier: Apache-2.0
#
# Values that are too large for Spark. play() runs what is shipped to its workers; tests/spark and
# test-sparklyr.R have Spark around it.

# nolint start: object_usage_linter. Helpers.
# Ranks whose values differ in length, and a driver that takes those of more than a KiB.
played <- function(results, f = NULL, size = 3L) {
  if (is.null(f)) f <- of_script(function(df, comm) seq_len(c(3, 1e5, 3e6)[nrow(df) + 1]) + 0.5)
  results$route$most <- 1024
  rank_results <- play(size, f, results = results$route)
  list(rank_results = rank_results, results = results)
}
# nolint end

values <- list(1:3 + 0.5, 1:1e5 + 0.5, 1:3e6 + 0.5)

test_that("large values come to the driver, whole, and leave nothing behind", {
  before <- list.files(tempdir(), "^sparkring")
  results <- results_open("127.0.0.1", 3L)
  ring <- played(results)
  expect_null(ring$rank_results[[2]]$value) # Spark has not carried it
  expect_false(is.null(ring$rank_results[[1]]$value))
  rank_results <- results_fetch(ring$rank_results, results)
  expect_identical(rank_result_values(rank_results), values)
  results_close(results)
  expect_identical(list.files(tempdir(), "^sparkring"), before)
  expect_ended(results$child$process$pid, 5)
})

test_that("a rank without others has a large value, too", {
  results <- results_open("127.0.0.1", 1L)
  ring <- played(results, of_script(function(df, comm) 1:1e5 + 0.5), size = 1L)
  expect_null(ring$rank_results[[1]]$value)
  expect_identical(rank_result_values(results_fetch(ring$rank_results, results)), list(1:1e5 + 0.5))
  results_close(results)
})

test_that("a value that does not arrive goes through Spark, or is an error with its size", {
  results <- list(route = list(
    endpoint = list(host = "127.0.0.1", token = as.raw(1:32)), connect = 1 # where nobody listens
  ))
  f <- of_script(function(df, comm) raw(c(3, 1e5, 17 * 2^20)[nrow(df) + 1]))
  ring <- played(results, f)
  expect_length(unserialize(ring$rank_results[[2]]$value), 1e5)
  error <- rank_result_judge(ring$rank_results, 3L, 0L)
  expect_s3_class(error, "ring_error_unsupported")
  expect_identical(error$rank, 2L)
  expect_match(conditionMessage(error), paste0(
    "returned a raw that takes 17 MiB. Spark carries values up to 16 MiB; a larger one goes to ",
    "the driver at 127.0.0.1, where it did not arrive .*: let executors reach it .*, or pass ",
    "`results` with a directory"
  ))
})

test_that("a failure on the driver is reported", {
  results <- results_open("127.0.0.1", 2L)
  unlink(results$folder, recursive = TRUE) # as when a disk is full
  ring <- played(results, of_script(function(df, comm) raw(17 * 2^20 * nrow(df))), size = 2L)
  error <- rank_result_judge(ring$rank_results, 2L, 0L)
  expect_match(conditionMessage(error), paste0("17 MiB.*did not arrive .*the driver failed: ",
                                               "cannot open file .*value-1': No such file"))
  results_close(results)
})

test_that("nobody waits for a driver that ends while values come", {
  endpoint <- list(host = "127.0.0.1", token = as.raw(1:32))
  driver <- child_start(function() {
    ring <- results_ring(0L, 2L, endpoint, 30)
    ring_gather(ring, 0)
    tools::pskill(Sys.getpid(), tools::SIGKILL)
  }, captured = FALSE)
  file <- tempfile()
  writeBin(raw(3 * results_piece), file)
  state <- list2env(list(parent = child_parent()))
  took <- system.time(why <- results_try(state, function() {
    results_transmit(0L, 1L, list(endpoint = endpoint, connect = 30), file)
  }))[["elapsed"]]
  expect_type(why, "character")
  expect_lt(took, 20)
  child_kill(driver)
  unlink(file)
})

test_that("large values come through a directory that the user names, and leave nothing there", {
  shared <- tempfile("shared")
  dir.create(shared)
  results <- results_open("127.0.0.1", 3L, shared)
  expect_null(results$child)
  ring <- played(results)
  expect_length(list.files(shared), 2)
  expect_identical(rank_result_values(results_fetch(ring$rank_results, results)), values)
  cat("more", file = results_shared(results$route, 1), append = TRUE)
  expect_error(results_fetch(ring$rank_results, results), "value of rank 1 was changed in .*shared",
               class = "ring_error_system")
  unlink(results_shared(results$route, 1))
  expect_error(results_fetch(ring$rank_results, results),
               "value of rank 1 is not in .*shared.*: pass `results`",
               class = "ring_error_system")
  results_close(results)
  expect_identical(list.files(shared), character())
  results <- results_open("127.0.0.1", 3L, file.path(shared, "none"))
  error <- rank_result_judge(played(results)$rank_results, 3L, 0L)
  expect_match(conditionMessage(error), "goes through .*none, where the rank cannot write it")
  results_close(results)
  unlink(shared, recursive = TRUE)
})

test_that("the directory is one that all can find", {
  expect_null(results_directory(NULL, stop("not asked"), NULL))
  expect_identical(results_directory("/shared", FALSE, NULL), "/shared")
  expect_identical(results_directory("here", TRUE, NULL), file.path(getwd(), "here"))
  expect_error(results_directory("here", FALSE, NULL), "the relative path here",
               class = "ring_error_invalid")
  for (odd in list(1, "", "hdfs://host/folder", c("a", "b"))) {
    expect_error(results_directory(odd, TRUE, NULL), "must be the path of a directory",
                 class = "ring_error_invalid")
  }
})

test_that("values that Spark carries fit into what it allows for all", {
  expect_identical(results_most(2L, "1g"), 2^24)
  expect_identical(results_most(64L, "1g"), 2^21)
  expect_identical(results_most(4L, "8m"), 2^20 - results_spare)
  expect_identical(results_most(1000L, "1m"), 0)
  expect_identical(results_most(2L, "0"), 2^24) # no limit
  sizes <- lapply(c("1g", "10", " 5 KB", "2M", "much"), results_bytes)
  expect_identical(sizes, list(2^30, 10, 5120, 2^21, 0))
  expect_identical(vapply(c(0, 17, 1536, 2^24, 2^40), results_units, ""),
                   c("0 bytes", "17 bytes", "1.5 KiB", "16 MiB", "1024 GiB"))
})

test_that("Spark's error for values that are too large together gets a remedy", {
  text <- paste(
    "org.apache.spark.SparkException: Job aborted due to stage failure: Total size of serialized",
    "results of 12 tasks (1100.0 MiB) is bigger than spark.driver.maxResultSize (1024.0 MiB)"
  )
  expect_error(barrier_job_explain(simpleError(text), 0L), class = "ring_error_unsupported", paste(
    "12 ranks together take 1100.0 MiB in .*maxResultSize allows 1024.0 MiB: raise it.*executors",
    "reach it .*or pass `results`"
  ))
})

test_that("the digest of a file is SHA-256", {
  file <- tempfile()
  cat("abc", file = file)
  expect_identical(
    paste(.Call(C_digest_file, file), collapse = ""),
    "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
  )
  unlink(file)
  expect_error(.Call(C_digest_file, file), "cannot be read: No such file",
               class = "ring_error_system")
})
