# SPDX-License-Identifier: Apache-2.0
#
# Tables of ranks that stay in Spark: their texts, and the SQL that reads them. test-sparklyr.R has
# Spark around it.

test_that("a table becomes texts of JSON, with the types of its columns", {
  table <- data.frame(
    rank = 7:9, x = c(0.1, NA, NaN), n = c(1L, NA, -1L), l = c(TRUE, NA, FALSE),
    s = c("a\"\\\n\u00e9", NA, ""), f = factor(c("u", NA, "v")),
    d = as.Date(c(1, NA, -1), origin = "1970-01-01"),
    t = as.POSIXct(c(0.25, NA, 1e9), origin = "1970-01-01"), stringsAsFactors = FALSE
  )
  table$v <- list(c(1, NA), NULL, integer())
  table$b <- list(as.raw(c(0, 255)), NA, raw())
  packed <- kept_pack(table)
  expect_identical(packed$types, c(
    x = "double", n = "int", l = "boolean", s = "string", f = "string", d = "date",
    t = "timestamp", v = "array<double>", b = "binary"
  ))
  expect_identical(packed$texts, paste0(
    "{\"c78\":[0.10000000000000001,null,\"NaN\"],\"c6e\":[1,null,-1],\"c6c\":[true,null,false],",
    "\"c73\":[\"a\\\"\\\\\\u000a\u00e9\",null,\"\"],\"c66\":[\"u\",null,\"v\"],",
    "\"c64\":[1,null,-1],",
    "\"c74\":[250000,null,1000000000000000],\"c76\":[[1,null],null,[]],",
    "\"c62\":[\"00ff\",null,\"\"]}"
  ))
  expect_identical(kept_pack(table[0, 2:5])$texts, character())
  expect_length(kept_pack(data.frame(x = seq_len(2 * kept_rows + 1)))$texts, 3)
})

test_that("what no column of Spark takes is an error of the rank", {
  expect_error(kept_pack(1), "`.f` returned 1, and with `collect = FALSE` it must return a data")
  expect_error(kept_pack(data.frame(z = 1i)), "column z is a complex that no column of Spark")
  odd <- data.frame(x = 1:2)
  odd$z <- list("a", 1)
  expect_error(kept_pack(odd), "column z is a list that no column")
  expect_error(kept_pack(data.frame(rank = 1)), "a data frame without columns")
})

test_that("ranks agree on their columns", {
  of <- function(...) list(table = list(types = c(...)))
  agreed <- kept_agree(list(of(x = "double", s = "string"), of(s = "string", x = "double")))
  expect_identical(agreed, c(x = "double", s = "string"))
  unknown <- list(of(v = "unknown"), of(v = "binary"), of(v = "unknown"))
  expect_identical(kept_agree(unknown), c(v = "binary"))
  expect_identical(kept_agree(unknown[-2]), c(v = "array<double>"))
  invalid <- function(message, ...) {
    expect_error(kept_agree(...), message, class = "ring_error_invalid")
  }
  invalid("rank 1 returned other columns than rank 0, such as s",
          list(of(x = "double", s = "string"), of(x = "double")))
  invalid("rank 1 returned column x as int, and rank 0 as double: convert it",
          list(of(x = "double"), of(x = "int")))
  invalid("a string as column x, and its type in `columns` is double",
          list(of(x = "string")), c(x = "double"))
  expect_identical(kept_agree(list(of(x = "double", s = "string")), "s"), c(s = "string"))
  expect_identical(kept_agree(list(of(v = "array<int>")), c(v = "list")), c(v = "array<int>"))
})

test_that("the texts of a rank travel as rows of their own", {
  f <- of_script(function(df, comm) df)
  rows <- play(3L, f, collect = FALSE, read = identity)
  expect_identical(rows$rank[rows$pieces < 0], 1:2)
  expect_identical(rows$text[rows$pieces < 0], c("{\"c6e\":[1]}", "{\"c6e\":[1,2]}"))
  rank_results <- rank_result_read(rows[rows$pieces >= 0, ])
  expect_null(rank_result_judge(rank_results, 3L, 0L))
  expect_identical(kept_agree(rank_results), c(n = "double"))
})

test_that("the function takes batches one after another", {
  f <- of_script(function(batches, comm) {
    sums <- numeric()
    while (!is.null(df <- batches())) sums <- c(sums, sum(df$n))
    batches(reset = TRUE)
    list(sums, is.null(batches()), ring_allreduce(comm, 1))
  })
  values <- rank_result_values(play(3L, f, rows = "batches"))
  expected <- list(list(numeric(), TRUE, 3), list(1, FALSE, 3), list(c(1, 2), FALSE, 3))
  expect_identical(values, expected)
})
