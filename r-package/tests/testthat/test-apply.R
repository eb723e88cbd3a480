# SPDX-License-Identifier: Apache-2.0
#
# What ring_apply() and ring_run() do around Spark: their arguments, and the closure that they ship,
# on real ranks. test-sparklyr.R and tests/spark have them inside Spark.

test_that("arguments are checked before anything starts", {
  skip_if_not_installed("sparklyr")
  invalid <- function(expression, message) {
    expect_error(expression, message, class = "ring_error_invalid")
  }
  invalid(ring_apply(mtcars, function(df, comm) 1), "`x` must be a Spark table.*in this R and not")
  invalid(ring_run(1, function(comm) 1), "`sc` must be a connection")
})

test_that("a function that does not take what it gets is told so", {
  invalid <- function(expression, message) {
    expect_error(expression, message, class = "ring_error_invalid")
  }
  invalid(ring_apply(NULL, "f"), "`f` must be a function, called as f\\(df, comm\\), not \"f\"")
  invalid(ring_apply(NULL, function(df) 1), "f\\(df, comm\\), which does not fit.*unused argument")
  invalid(ring_run(NULL, function() 1), "f\\(comm\\), which does not fit")
  invalid(ring_run(NULL, function(comm) 1, rate = 2), "f\\(comm, ...\\), which .* unused argument")
  invalid(ring_run(NULL, sum, num_proc = 0), "`num_proc` is 0: it must be 1 or more")
  invalid(ring_apply(NULL, sum, num_proc = -2), "`num_proc` is -2: it must be 1 or more")
  invalid(ring_run(NULL, sum, max_restarts = -1), "`max_restarts` is -1: it must be 0 or more")
  invalid(ring_run(NULL, sum, timeout = 0), "`timeout` must be a positive number of seconds")
  invalid(ring_run(NULL, sum, options = list(token = "x")), "arguments of ring_init.*; not token")
  invalid(ring_run(NULL, sum, columns = c(a = "number")), "types with names, which are double")
  invalid(ring_run(NULL, sum, columns = 1), "`columns` must be names")
  error <- tryCatch(ring_run(NULL, "f"), error = identity)
  expect_identical(conditionCall(error)[[1L]], quote(ring_run))
})

test_that("ranks get their rows and a ring, and their tables become one", {
  f <- of_script(function(df, comm, factor) {
    total <- ring_allreduce(comm, sum(df$n)) * factor
    data.frame(rows = nrow(df), total = total, attempt = ring_attempt(comm))
  })
  outcomes <- play(3L, f, factor = 10, attempt = 2L)
  expect_null(outcome_judge(outcomes, 3L, 2L))
  table <- outcome_values(outcomes)
  expect_identical(as.list(table), list(
    rank = 0:2, rows = 0:2, total = rep(40, 3), attempt = rep(2L, 3)
  ))
})

test_that("the error of a rank comes to the driver, and the others do not wait for it", {
  f <- of_script(function(df, comm) {
    inner <- function(n) if (n == 1) stop("rank one has had enough")
    inner(nrow(df))
    ring_allreduce(comm, 1)
  })
  outcomes <- play(3L, f)
  expect_length(outcomes, 3)
  error <- outcome_judge(outcomes, 3L, 0L)
  expect_s3_class(error, "ring_error_remote")
  expect_identical(error$rank, 1L)
  expect_match(error$traceback, "1. f(rows, comm)\n  2. inner(nrow(df))", fixed = TRUE)
  expect_match(conditionMessage(error), "rank 1 on .* failed: rank one has had enough")
  others <- vapply(outcomes[-2], function(outcome) outcome$failure$weight, 0)
  expect_identical(others, rep(outcome_weights[["ABORTED"]], 2))
  expect_match(outcomes[[1]]$failure$message, "rank one has had enough")
})

test_that("nothing tells the token", {
  f <- of_script(function(df, comm) stop("no"))
  job <- list(
    work = serialize(list(f = f, args = list()), NULL), size = 2L, attempt = 0L,
    token = as.raw(1:16), options = list(timeout = 1), cells = c(n = "double")
  )
  packed <- data.frame(chunk = -1, text = "")
  barrier <- list(address = list("127.0.0.1:1", "127.0.0.1:1"), partition = 0L)
  failure <- rank_play(packed, job, barrier)$failure
  expect_match(failure$message, "token")
  told <- c(failure$message, failure$traceback, deparse(unserialize(failure$error)$call))
  expect_no_match(told, "as.raw|01, ?0|0102")
  expect_identical(rank_state$attempt, 0L)
})

test_that("a job of another size than Spark's is refused before anyone waits", {
  job <- list(size = 3L, attempt = 0L)
  outcome <- rank_play(NULL, job, list(address = list("a:1", "a:2"), partition = 1))
  expect_match(outcome$failure$message, "Spark has made 2 tasks for 3 ranks")
})

test_that("a worker without sparkring says so", {
  alone <- rank_closure
  environment(alone) <- list2env(list(require = function(...) FALSE), parent = baseenv())
  rows <- alone(NULL, NULL, list(address = list("a:1"), partition = 2L))
  expect_identical(rows$rank, 2L)
  expect_error(outcome_read(rows), "the package sparkring is not installed in the R of",
               class = "ring_error_unsupported")
})

test_that("what Spark says of a rank that it lost becomes an error that names it", {
  text <- paste0(
    "org.apache.spark.SparkException: Job aborted: Could not recover from a failed barrier ",
    "ResultStage. Most recent failure reason: Stage failed because barrier task ResultTask(3, 2) ",
    "finished unsuccessfully.\njava.lang.Exception: sparklyr worker rscript failure with status 137"
  )
  error <- apply_explain(simpleError(text), 1L)
  expect_s3_class(error, "ring_error_remote")
  expect_identical(error$rank, 2L)
  expect_match(conditionMessage(error), "^rank 2 was lost: .*status 137.* \\(attempt 1\\)$")
  expect_error(apply_explain(simpleError("no such table"), 0L), "^no such table$")
})
