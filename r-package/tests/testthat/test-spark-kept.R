# SPDX-License-Identifier: Apache-2.0
#
# Tables of ranks that stay in Spark: their strings, and the SQL that reads them. test-sparklyr.R
# has Spark around it.

test_that("a table becomes strings of JSON, with the types of its columns", {
  table <- data.frame(
    rank = 7:9, x = c(0.1, NA, NaN), n = c(1L, NA, -1L), l = c(TRUE, NA, FALSE),
    s = c("a\"\\\n\u00e9", NA, ""), f = factor(c("u", NA, "v")),
    d = as.Date(c(1, NA, -1), origin = "1970-01-01"),
    t = as.POSIXct(c(0.25, NA, 1e9), origin = "1970-01-01"), stringsAsFactors = FALSE
  )
  table$v <- list(c(1, NA), NULL, integer())
  table$b <- list(as.raw(c(0, 255)), NA, raw())
  table$c <- list(list("a", NA_character_), character(), list())
  table$e <- list(as.Date(c(1, NA), origin = "1970-01-01"), NULL, logical())
  table$u <- list(as.POSIXct(0.25, origin = "1970-01-01"), NA, NULL)
  table$z <- NA
  table$y <- list(NULL, c(NA, NA), integer())
  packed <- kept_pack(table)
  expect_identical(packed$types, c(
    x = "double", n = "int", l = "boolean", s = "string", f = "string", d = "date",
    t = "timestamp", v = "array<double>", b = "binary", c = "array<string>", e = "array<date>",
    u = "array<timestamp>", z = "void", y = "array<void>"
  ))
  expect_identical(packed$strings, paste0(
    "{\"c78\":[0.10000000000000001,null,\"NaN\"],\"c6e\":[1,null,-1],\"c6c\":[true,null,false],",
    "\"c73\":[\"a\\\"\\\\\\u000a\u00e9\",null,\"\"],\"c66\":[\"u\",null,\"v\"],",
    "\"c64\":[1,null,-1],",
    "\"c74\":[250000,null,1000000000000000],\"c76\":[[1,null],null,[]],",
    "\"c62\":[\"00ff\",null,\"\"],\"c63\":[[\"a\",null],[],[]],\"c65\":[[1,null],null,[]],",
    "\"c75\":[[250000],null,null],\"c7a\":[null,null,null],\"c79\":[null,[null,null],[]]}"
  ))
  expect_identical(kept_pack(table[0, 2:5])$strings, character())
  expect_length(kept_pack(data.frame(x = seq_len(2 * kept_rows + 1)))$strings, 3)
  wide <- data.frame(id = 1:7)
  wide$x <- rep(list(numeric(kept_bytes / 8 / 2)), 7) # one row more would be too large
  expect_length(kept_pack(wide)$strings, 7)
})

test_that("I() and times as POSIXlt are as without", {
  table <- data.frame(x = I(1:2))
  table$t <- as.POSIXlt(c("2024-01-01", NA), tz = "UTC")
  table$l <- list(table$t[1], NULL)
  table$s <- I(list(1, 2))
  expect_identical(unname(kept_pack(table)$types),
                   c("int", "timestamp", "array<timestamp>", "array<double>"))
})

test_that("what no column of Spark takes is an error of the rank", {
  expect_error(kept_pack(1), "`.f` returned 1, and with `collect = FALSE` it must return a data")
  expect_error(kept_pack(data.frame(z = 1i)), "column z is a complex that no column of Spark")
  odd <- data.frame(x = 1:2)
  odd$z <- list("a", 1)
  expect_error(kept_pack(odd), "column z is a list that no column")
  expect_error(kept_pack(data.frame(rank = 1)), "a data frame without columns")
  twice <- data.frame(x = 1, x = 2, check.names = FALSE)
  expect_error(kept_pack(twice), "`.f` returned two columns x: rename one")
  expect_error(kept_pack(data.frame(x = 1, X = 2)), "the columns x and X, between which Spark")
  expect_error(kept_pack(data.frame(Rank = 1)), "the columns rank and Rank, .*: rename one")
  for (name in c(NA, "")) {
    expect_error(kept_pack(`names<-`(data.frame(x = 1), name)), "a column without a name: name it")
  }
  odd <- data.frame(x = 1:2)
  odd$m <- matrix(1:4, 2)
  expect_error(kept_pack(odd), "column m is a matrix that no column")
  odd <- data.frame(x = 1:2)
  odd$d <- data.frame(a = 1:2)
  expect_error(kept_pack(odd), "column d is a data.frame that no column")
  expect_error(kept_pack(data.frame(t = as.POSIXct(Inf, origin = "1970-01-01"))),
               "column t is a POSIXct .* finite dates and times")
})

test_that("ranks agree on their columns", {
  of <- function(...) list(table = list(types = c(...)))
  agreed <- kept_agree(list(of(x = "double", s = "string"), of(s = "string", x = "double")))
  expect_identical(agreed, c(x = "double", s = "string"))
  unknown <- list(of(v = "array<void>"), of(v = "binary"), of(v = "void"))
  expect_identical(kept_agree(unknown), c(v = "binary"))
  expect_identical(kept_agree(unknown[-2]), c(v = "array<double>"))
  expect_identical(kept_agree(unknown[3]), c(v = "boolean"))
  numbers <- list(of(x = "int"), of(x = "void"), of(x = "double"))
  expect_identical(kept_agree(numbers), c(x = "double"))
  expect_identical(kept_agree(rev(numbers), c(x = "numeric")), c(x = "double"))
  expect_identical(kept_agree(numbers[1], c(x = "numeric")), c(x = "int"))
  invalid <- function(message, ...) {
    expect_error(kept_agree(...), message, class = "ring_error_invalid")
  }
  invalid("rank 1 returned other columns than rank 0, such as s",
          list(of(x = "double", s = "string"), of(x = "double")))
  invalid("rank 2 returned column x as string, and rank 1 as double: convert it",
          list(of(x = "int"), of(x = "double"), of(x = "string")))
  invalid("rank 1 returned column x as int, and rank 0 as array<void>: convert it",
          list(of(x = "array<void>"), of(x = "int")))
  invalid("a string as column x, and its type in `columns` is double",
          list(of(x = "string")), c(x = "double"))
  expect_identical(kept_agree(list(of(x = "double", s = "string")), "s"), c(s = "string"))
  expect_identical(kept_agree(list(of(v = "array<int>")), c(v = "list")), c(v = "array<int>"))
})

test_that("the strings of a rank travel as rows of their own", {
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
