# SPDX-License-Identifier: Apache-2.0

# A string as Spark makes it of rows, which are vectors of texts or NA.
packed <- function(...) {
  line <- function(row) paste(ifelse(is.na(row), "N", paste0("V", row)), collapse = "\037")
  paste(vapply(list(...), line, ""), collapse = "\036")
}

test_that("each kind of column comes back", {
  kinds <- c(
    x = "double", n = "integer", l = "logical", s = "character", d = "date", t = "timestamp",
    b = "raw", a = "doubles"
  )
  text <- packed(
    c("1.0E-10", "3", "true", "a\033u\033r\033e", "1", "0.25", "00FF", "1.5 NA -Infinity"),
    rep(NA, 8),
    c("NaN", "-1", "false", "", "-1", "1e9", "", "")
  )
  rows <- cells_read(data.frame(chunk = 0, text = text, stringsAsFactors = FALSE), kinds)
  expect_identical(names(rows), names(kinds))
  expect_identical(rows$x, c(1e-10, NA, NaN))
  expect_identical(rows$n, c(3L, NA, -1L))
  expect_identical(rows$l, c(TRUE, NA, FALSE))
  expect_identical(rows$s, c("a\037\036\033", NA, ""))
  expect_identical(rows$d, structure(c(1, NA, -1), class = "Date"))
  expect_identical(rows$t, .POSIXct(c(0.25, NA, 1e9)))
  expect_identical(rows$b, list(as.raw(c(0, 255)), NULL, raw()))
  expect_identical(rows$a, list(c(1.5, NA, -Inf), NULL, numeric()))
})

test_that("strings of rows are put in order, and those without rows make none", {
  strings <- data.frame(
    chunk = c(7, -1, 2), text = c(packed("3"), "", packed("1", "2")), stringsAsFactors = FALSE
  )
  expect_identical(cells_read(strings, c(n = "integer"))$n, 1:3)
  none <- cells_read(strings[2, ], c(n = "integer", s = "character", d = "date"))
  expect_identical(dim(none), c(0L, 3L))
  expect_identical(lapply(none, class), list(n = "integer", s = "character", d = "Date"))
})

test_that("numbers come back as they were, to the bit", {
  set.seed(1)
  numbers <- c(rnorm(1000), exp(rnorm(1000, sd = 20)), .Machine$double.xmax, 2^-1022, 0.1, 1 / 3)
  text <- do.call(packed, as.list(sprintf("%.17g", numbers)))
  rows <- cells_read(data.frame(chunk = 0, text = text), c(x = "double"))
  expect_identical(rows$x, numbers)
})

test_that("a column of a type that R has no vector for is named", {
  types <- c(id = "LongType", size = "ByteType", image = "MapType(StringType,LongType,true)")
  expect_error(
    cells_kinds(types), "column image is of Spark's type MapType.*select other columns",
    class = "ring_error_invalid"
  )
  arrays <- c(a = "ArrayType(DoubleType,true)", b = "ArrayType(IntegerType,false)")
  expect_identical(unname(cells_kinds(arrays)), c("doubles", "doubles"))
  expect_identical(unname(cells_kinds(c(a = "DecimalType(10,3)"))), "double")
  expect_error(cells_kinds(c(a = "ArrayType(StringType,true)")), class = "ring_error_invalid")
})

test_that("names of columns are quoted", {
  expect_match(cell_sql("a`b c", "integer"), "cast(`a``b c` AS string)", fixed = TRUE)
})

test_that("each partition has a key", {
  expect_identical(cells_keys("1 1 0 1 2", 3L), c(2L, 0L, 4L))
})

test_that("rows are dealt out in their order, as many to each rank", {
  ranks <- function(counts, size) {
    sql <- cells_deal_sql("within", counts, size)
    sql <- gsub("L\\b", "", gsub(" div ", " %/% ", sub("spark_partition_id()", "part", sql,
                                                      fixed = TRUE)))
    scope <- list(least = min, array = c, element_at = `[[`)
    places <- data.frame(part = rep(seq_along(counts) - 1, counts), within = sequence(counts) - 1)
    mapply(function(part, within) {
      eval(parse(text = sql), c(scope, list(part = part, within = within)))
    }, places$part, places$within)
  }
  expect_identical(ranks(c(3, 0, 4), 2L), c(0, 0, 0, 0, 1, 1, 1))
  expect_identical(ranks(c(3, 0, 4), 7L), 0:6 + 0)
  expect_identical(ranks(c(1, 1), 4L), c(0, 2))
  expect_identical(as.vector(table(ranks(c(100, 1, 50, 2), 5L))), c(31L, 31L, 30L, 31L, 30L))
  expect_identical(cells_counts(c(2, 0), c(5, 7)), c(7, 0, 5))
  expect_identical(cells_counts(numeric(), numeric()), numeric())
})
