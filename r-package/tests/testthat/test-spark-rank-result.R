# SPDX-License-Identifier: Apache-2.0

failed <- function(rank, error, when, frames = NULL) {
  rank_result <- rank_result_of_error(rank, error, frames)
  rank_result$failure$when <- when
  rank_result
}

ring_condition <- function(status, message = "text", ...) {
  tryCatch(ring_stop(status, message, ...), error = identity)
}

test_that("bytes become text and come back", {
  set.seed(1)
  for (length in c(0:7, 1000)) {
    bytes <- as.raw(sample(0:255, length, replace = TRUE))
    expect_identical(base64_bytes(base64_text(bytes)), bytes)
  }
  expect_identical(base64_text(charToRaw("ring")), "cmluZw==")
})

test_that("a value of many pieces comes back, and one with a piece missing does not", {
  value <- list(runif(3e5), sum, NULL, "\u00e9")
  rows <- rank_result_rows(rank_result_of_value(1L, value))
  expect_identical(names(rows), names(task_columns))
  expect_gt(nrow(rows), 2)
  rank_results <- rank_result_read(rows[rev(seq_len(nrow(rows))), ])
  expect_identical(rank_result_values(rank_results), list(value))
  expect_identical(rank_result_read(rows[-2, ]), list())
})

test_that("values are in rank order, and tables become one", {
  read <- function(...) rank_result_read(do.call(rbind, lapply(list(...), rank_result_rows)))
  results <- read(rank_result_of_value(1L, "one"), rank_result_of_value(0L, NULL))
  values <- rank_result_values(results)
  expect_identical(values, list(NULL, "one"))
  first <- data.frame(n = 1:2, s = c("a", "b"), stringsAsFactors = FALSE)
  tables <- read(
    rank_result_of_value(1L, first[2:1]), rank_result_of_value(0L, first),
    rank_result_of_value(2L, first[0, ])
  )
  table <- rank_result_values(tables)
  expect_identical(as.list(table), list(rank = c(0L, 0L, 1L, 1L), n = c(1:2, 1:2), s = c(
    "a", "b", "a", "b"
  )))
  expect_identical(names(rank_result_values(tables, "s")), c("rank", "s"))
  expect_identical(names(rank_result_values(tables, c(n = "integer"))), c("rank", "n"))
  expect_error(rank_result_values(tables, c(n = "double")), "a integer as column n.*is double")
  expect_error(rank_result_values(tables, "x"), "rank 0 returned other columns .*such as x")
  other <- read(rank_result_of_value(0L, first), rank_result_of_value(1L, first["n"]))
  expect_error(rank_result_values(other), "rank 1 returned other columns than rank 0, such as s")
  twice <- read(rank_result_of_value(0L, data.frame(n = 1, n = 2, check.names = FALSE)))
  expect_error(rank_result_values(twice), "rank 0 returned two columns n: rename one")
  five <- read(rank_result_of_value(0L, 5))
  expect_error(rank_result_values(five, "n"), "`.f` returned 5 on rank 0")
})

test_that("columns of ranks keep their values in one table, or are refused", {
  bound <- function(...) {
    values <- list(...)
    rank_result_values(lapply(seq_along(values), function(i) {
      rank_result_of_value(i - 1L, as_table(list(n = rep(0, NROW(values[[i]])), x = values[[i]])))
    }))$x
  }
  day <- as.Date("2024-01-01")
  at <- as.POSIXct("2024-01-01", tz = "UTC")
  for (value in list(day, at, as.difftime(1, units = "mins"), 1i, "a", TRUE, as.raw(1), list(1))) {
    none <- if (is.raw(value) || is.list(value)) value[0] else value[NA_integer_]
    expect_identical(bound(value, none), c(value, none))
    expect_identical(bound(if (length(none) == 0) none else NA, value), c(none, value))
    expect_identical(bound(logical(), value), value)
  }
  expect_identical(bound(factor(NA), factor(c("b", "a")), "c"), factor(c(NA, "b", "a", "c")))
  expect_identical(bound(as.POSIXlt(at), at), c(at, at))
  expect_identical(bound(TRUE, 2L), 1:2)
  expect_equal(bound(as.difftime(1, units = "hours"), as.difftime(30, units = "mins")),
               as.difftime(c(1, 0.5), units = "hours"))
  refused <- function(message, ...) expect_error(bound(...), message, class = "ring_error_invalid")
  refused("column `x` is of class Date on rank 0 and numbers on rank 1: convert it", day, 1)
  refused("column `x` is numbers on rank 1 and of class Date on rank 2", NA, 1, day)
  refused("`x` is of class Date on rank 0 and of class POSIXct on rank 1: convert", day, at)
  refused("`x` is a factor or strings on rank 0 and numbers on rank 1", factor("a"), 3)
  refused("the columns 1, 2 on rank 0 and numbers with the columns 1 on", t(1:2), t(1))
  for (name in c(NA, "")) {
    unnamed <- rank_result_of_value(0L, `names<-`(data.frame(x = 1), name))
    expect_error(rank_result_values(list(unnamed)), "rank 0 returned a column without a name: name")
  }
})

test_that("the rank at fault is distinguished from the ranks that only report it", {
  lost <- failed(0L, ring_condition("ABORTED"), 1)
  wrong <- failed(1L, ring_condition("INVALID"), 2)
  mine <- failed(2L, simpleError("my own"), 3)
  later <- failed(3L, simpleError("another"), 4)
  expect_identical(rank_result_judge(list(lost, wrong, mine, later), 4L, 0L)$rank, 2L)
  expect_identical(rank_result_judge(list(lost, wrong), 2L, 0L)$rank, 1L)
  expect_null(rank_result_judge(list(rank_result_of_value(0L, 1)), 1L, 0L))
  gone <- rank_result_judge(list(lost), 2L, 0L)
  expect_identical(gone$rank, 1L)
  expect_match(conditionMessage(gone), "^rank 1 ended without a result")
  expect_identical(rank_result_judge(list(mine), 4L, 0L)$rank, 2L)
})

test_that("an error weighs what the least of its causes of the ring does", {
  from <- function(parent, class = "my_error") {
    structure(class = c(class, "error", "condition"), list(message = "no", parent = parent))
  }
  lost <- ring_condition("PEER_LOST")
  expect_identical(rank_result_weight(simpleError("my own"), 1L), 0)
  expect_identical(rank_result_weight(from(from(lost)), 1L), 4)
  wrong <- ring_condition("INVALID")
  wrong$parent <- lost
  expect_identical(rank_result_weight(from(wrong), 1L), 1)
  aborted <- ring_condition("ABORTED")
  aborted$rank <- 2L
  expect_gt(rank_result_weight(aborted, 1L), 0)
  expect_identical(rank_result_weight(aborted, 2L), 0) # it names itself
  expect_identical(rank_result_lost(1L, "killed")$failure$weight, 3.5)
  same <- list(failed(2L, lost, 1), failed(1L, lost, 1))
  expect_identical(rank_result_judge(same, 2L, 0L)$rank, 0L) # which has no result
  expect_identical(rank_result_judge(c(same, list(failed(0L, lost, 2))), 3L, 0L)$rank, 1L)
})

test_that("an error names rank, host and attempt, and is of its own class, too", {
  own <- structure(
    class = c("my_error", "error", "condition"), list(message = "no", call = quote(g(1)), code = 7)
  )
  frames <- list(calls = list(quote(task_call(1)), quote(f(rows, comm)), quote(g(1))))
  frames$packages <- c("sparkring", "R_GlobalEnv", "R_GlobalEnv")
  error <- rank_result_judge(list(failed(1L, own, 1, frames)), 2L, 2L)
  classes <- c("ring_error_remote", "my_error", "ring_error", "error", "condition")
  expect_s3_class(error, classes, exact = TRUE)
  expect_identical(error$code, 7)
  expect_identical(error$status, "REMOTE")
  expect_identical(error$host, Sys.info()[["nodename"]])
  expect_identical(error$traceback, "  1. f(rows, comm)\n  2. g(1)")
  expect_identical(conditionMessage(error$parent), "no")
  expect_match(conditionMessage(error), "^rank 1 on .* failed: no \\(attempt 2\\)\n\nIts calls:\n")
  timeout <- rank_result_judge(list(failed(0L, ring_condition("TIMEOUT"), 1)), 1L, 0L)
  expect_s3_class(timeout, "ring_error_timeout")
  lacks <- tryCatch(eval(quote(of_driver), baseenv()), error = function(error) error)
  lost <- rank_result_judge(list(failed(0L, lacks, 1)), 1L, 0L)
  expect_match(conditionMessage(lost), "object 'of_driver' not found: a rank has no variables of")
})

test_that("the error for a variable that was not sent has its remedy in any language", {
  language <- Sys.getenv("LANGUAGE", NA)
  on.exit(Sys.setLanguage(if (is.na(language)) "" else language))
  for (of in c("en", "de")) {
    Sys.setLanguage(of)
    for (fails in list(quote(no_such_variable + 1), quote(no_such_function(1)))) {
      error <- tryCatch(eval(fails, new.env()), error = identity)
      expect_match(rank_result_of_error(1L, error)$failure$message, "pass them as arguments")
    }
    odd <- rank_result_of_error(1L, simpleError("object 'x' not found in the table"))
    expect_identical(odd$failure$message, "object 'x' not found in the table")
  }
})

test_that("the error for a condition that is too large comes without it", {
  large <- structure(
    class = c("error", "condition"), list(message = "large", call = NULL, data = runif(1e5))
  )
  error <- rank_result_judge(list(failed(0L, large, 1)), 1L, 0L)
  expect_null(error$parent)
  expect_match(conditionMessage(error), "failed: large")
})
