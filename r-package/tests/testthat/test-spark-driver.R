# SPDX-License-Identifier: Apache-2.0
#
# What ring_apply() and ring_run() do around Spark: their arguments, and the closure that they ship,
# on real ranks. test-sparklyr.R and tests/spark have them inside Spark.

skip_on_cran() # starts many processes

# Two numbers of each of the streams that parallel makes of a seed.
streams <- function(seed, count) {
  kinds <- RNGkind("L'Ecuyer-CMRG", "Inversion", "Rejection")
  on.exit(do.call(RNGkind, as.list(kinds)))
  set.seed(seed)
  stream <- get(".Random.seed", globalenv())
  lapply(seq_len(count), function(i) {
    if (i > 1) stream <<- parallel::nextRNGStream(stream)
    assign(".Random.seed", stream, globalenv())
    runif(2)
  })
}

test_that("arguments are checked before anything starts", {
  skip_if_not_installed("sparklyr")
  invalid <- function(expression, message) {
    expect_error(expression, message, class = "ring_error_invalid")
  }
  invalid(ring_apply(mtcars, function(df, comm) 1), "`.x` must be a Spark table.*in this R and not")
  invalid(ring_run(1, function(comm) 1), "`.sc` must be a connection")
})

test_that("objects of PySpark and pysparklyr are found", {
  session <- structure(list(), class = "pyspark.sql.connect.session.SparkSession")
  connection <- structure(list(state = list(spark_context = session)), class = "pyspark_connection")
  expect_identical(pyspark_session(session), session)
  expect_identical(pyspark_session(connection), session)
  expect_null(pyspark_session(1))
  frame <- structure(list(), class = "pyspark.sql.dataframe.DataFrame")
  expect_identical(pyspark_frame(frame), frame)
  expect_null(pyspark_frame(mtcars))
  expect_true(is_table(frame))
})

test_that("a function that does not take its arguments is an error", {
  invalid <- function(expression, message) {
    expect_error(expression, message, class = "ring_error_invalid")
  }
  invalid(ring_apply(NULL, "f"), "function that is called as .f\\(df, comm\\), .*not \"f\"")
  invalid(ring_apply(NULL, function(df) 1), "f\\(df, comm\\), which does not fit.*unused argument")
  invalid(ring_run(NULL, function() 1), "f\\(comm\\), which does not fit")
  invalid(ring_run(NULL, function(comm) 1, rate = 2), "f\\(comm, ...\\), which .* unused argument")
  invalid(ring_apply(NULL, sum, rows = "some"), "`rows` must be \"all\", \"batches\" or")
  invalid(ring_apply(NULL, sum, collect = NA), "`collect` must be TRUE or FALSE, not NA")
  both <- function(df, comm, rows) rows
  invalid(ring_apply(NULL, both, rows = "all"), "`rows` is an argument of ring_apply\\(\\) and of")
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

test_that("arguments of the function may be called x, f and sc", {
  f <- of_script(function(comm, x, f, sc, s) c(ring_size(comm), x, f, sc, s))
  values <- ring_run(NULL, f, x = 2, f = 3, sc = 4, s = 5, num_proc = -1)
  expect_identical(values, list(c(1, 2, 3, 4, 5)))
})

test_that("an argument that the function and the call both have is an error", {
  expect_error(
    ring_run(NULL, function(comm, timeout = 1) timeout, timeout = 5, num_proc = -1),
    "`timeout` is an argument of ring_run\\(\\) and of `.f`.*rename the argument of `.f`",
    class = "ring_error_invalid"
  )
  f <- of_script(function(comm, timeout = 1) timeout)
  expect_identical(ring_run(NULL, f, num_proc = -1), list(1))
})

test_that("a formula is a function, as for spark_apply()", {
  scope <- list2env(list(ten = 10), parent = globalenv())
  values <- ring_run(NULL, eval(quote(~ ring_rank(.x) + ten + ..2), scope), 5, num_proc = -2)
  expect_identical(values, list(15, 16))
  both <- driver_function(~ nrow(.x) + .y, list(), 2L, NULL)
  expect_identical(both(mtcars, 1), 33)
  expect_identical(driver_function(~ nrow(.), list(), 2L, NULL)(mtcars, 1), 32L)
  expect_error(
    ring_run(NULL, y ~ x, num_proc = -1), "y ~ x: a formula that stands .* only a right side",
    class = "ring_error_invalid"
  )
})

test_that("a table with groups is an error with a remedy", {
  expect_null(driver_check_groups(character(), NULL))
  expect_error(
    driver_check_groups(c("a", "b"), NULL),
    "grouped by a, b, .*ungroup.*partition_by = c\\(\"a\", \"b\"\\)\\) without `num_proc`",
    class = "ring_error_invalid"
  )
})

test_that("each rank draws from a stream of its own, the same from run to run", {
  draw <- of_script(function(comm) c(runif(2), rnorm(1), sample(100, 1)))
  set.seed(5)
  before <- .Random.seed
  values <- ring_run(NULL, draw, num_proc = -3, seed = 42)
  expect_identical(.Random.seed, before)
  expect_identical(ring_run(NULL, draw, num_proc = -2, seed = 42), values[1:2])
  expect_length(unique(lapply(values, `[[`, 1)), 3)
  other <- ring_run(NULL, draw, num_proc = -2, seed = 43)
  free <- ring_run(NULL, draw, num_proc = -2)
  expect_length(unique(lapply(c(values, other, free), `[[`, 1)), 7)
  expect_identical(lapply(values, `[`, 1:2), streams(42, 3))
  expect_error(ring_run(NULL, draw, num_proc = -2, seed = "a"), "`seed` must be one whole number",
               class = "ring_error_invalid")
})

test_that("ranks get their rows and a ring, and their tables become one", {
  f <- of_script(function(df, comm, factor) {
    total <- ring_allreduce(comm, sum(df$n)) * factor
    data.frame(rows = nrow(df), total = total, attempt = ring_attempt(comm))
  })
  rank_results <- play(3L, f, factor = 10, attempt = 2L)
  expect_null(rank_result_judge(rank_results, 3L, 2L))
  table <- rank_result_values(rank_results)
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
  rank_results <- play(3L, f)
  expect_length(rank_results, 3)
  error <- rank_result_judge(rank_results, 3L, 0L)
  expect_s3_class(error, "ring_error_remote")
  expect_identical(error$rank, 1L)
  expect_match(error$traceback, "1. f(rows, comm)\n  2. inner(nrow(df))", fixed = TRUE)
  expect_match(conditionMessage(error), "rank 1 on .* failed: rank one has had enough")
  others <- vapply(rank_results[-2], function(rank_result) rank_result$failure$weight, 0)
  expect_identical(others, rep(5, 2))
  expect_match(rank_results[[1]]$failure$message, "rank one has had enough")
})

test_that("nothing shows the token", {
  f <- of_script(function(df, comm) stop("no"))
  job <- list(
    work = serialize(list(f = f, args = list()), NULL), size = 2L, attempt = 0L,
    token = as.raw(1:16), options = list(timeout = 1)
  )
  barrier <- list(address = list("127.0.0.1:1", "127.0.0.1:1"), partition = 0L)
  failure <- rank_run(NULL, job, barrier)$failure
  expect_match(failure$message, "token")
  texts <- c(failure$message, failure$traceback, deparse(unserialize(failure$error)$call))
  expect_no_match(texts, "as.raw|01, ?0|0102")
  expect_identical(run_state$attempt, 0L)
})

test_that("a job of another size than Spark's is refused before anyone waits", {
  job <- list(size = 3L, attempt = 0L)
  rank_result <- rank_run(NULL, job, list(address = list("a:1", "a:2"), partition = 1))
  expect_match(rank_result$failure$message, "Spark started 2 tasks for 3 ranks")
})

test_that("a worker without sparkring is an error", {
  alone <- task_closure
  environment(alone) <- list2env(list(require = function(...) FALSE), parent = baseenv())
  rows <- alone(NULL, NULL, list(address = list("a:1"), partition = 2L))
  expect_identical(rows$rank, 2L)
  expect_error(rank_result_read(rows), "the package sparkring is not installed on",
               class = "ring_error_unsupported")
})

test_that("Spark's report of a lost rank becomes an error that names the rank", {
  text <- paste0(
    "org.apache.spark.SparkException: Job aborted: Could not recover from a failed barrier ",
    "ResultStage. Most recent failure reason: Stage failed because barrier task ResultTask(3, 2) ",
    "finished unsuccessfully.\njava.lang.Exception: sparklyr worker rscript failure with status 137"
  )
  error <- barrier_job_explain(simpleError(text), 1L)
  expect_s3_class(error, "ring_error_remote")
  expect_identical(error$rank, 2L)
  expect_match(conditionMessage(error), paste0(
    "^rank 2 was lost: its R process was killed by SIGKILL \\(status 137\\) \\(probably out of ",
    "memory: raise spark.executor.memoryOverhead\\) \\(attempt 1\\)$"
  ))
  expect_match(
    barrier_job_why("java.lang.IllegalStateException: Subprocess exited with status 1. Command"),
    "its rows could not be written to a file of its executor: is the disk of SPARK_LOCAL_DIRS full"
  )
  expect_identical(barrier_job_why("sparklyr worker rscript failure with status 255, check"),
                   "its R process failed with exit code 255")
  wrapped <- paste(
    "org.apache.spark.SparkException: Job aborted due to stage failure: Could", "not recover from",
    "a failed barrier ResultStage. Stage failed because barrier", "task ResultTask(3, 1) finished",
    "unsuccessfully.\nExecutorLostFailure (executor 1 exited caused by one of the running tasks)",
    "Reason: Command exited with code 137\n\nRun `sparklyr::spark_last_error()` to see the rest",
    sep = "\n"
  )
  host <- function(stage, rank) paste0("node-", stage, "-", rank)
  expect_identical(conditionMessage(barrier_job_explain(simpleError(wrapped), 0L, host)), paste(
    "rank 1 on node-3-1 was lost: ExecutorLostFailure (executor 1 exited caused by one of the",
    "running tasks) Reason: Command exited with code 137 (probably out of memory: raise",
    "spark.executor.memoryOverhead)"
  ))
  expect_error(barrier_job_explain(simpleError("no such table"), 0L), "^no such table$")
})
