# SPDX-License-Identifier: Apache-2.0
#
# Columns that are carried along beside columns that R adds. tests/spark has Spark's side.

test_that("a column that would change is refused by its name", {
  refused <- function(type, class = "X") {
    carry_check(data.frame(name = c("a", "odd"), type = c("INT", type), class = c("I", class)))
  }
  for (type in c("MAP<INT, STRING>", "ARRAY<MAP<DATE, INT>>", "INTERVAL", "ARRAY<INTERVAL>",
                 "VARIANT", "STRING COLLATE UNICODE")) {
    expect_error(refused(type), "column `odd` .* leave it out", class = "ring_error_invalid")
  }
  expect_error(refused("STRUCT<type: TINYINT>", "ArrayType(VectorUDT@1,true)"), "column `odd`")
  for (type in c("MAP<STRING, INTERVAL DAY>", "INTERVAL DAY TO SECOND", "STRUCT<`MAP<INT`: INT>",
                 "DECIMAL(38,10)", "VOID")) {
    expect_null(refused(type))
  }
})

test_that("an error of a task is its text, in place of rows", {
  job <- list(f = function(rows, context) stop("no rows for ", context), context = "me")
  text <- carry_main(list(list(raw())), job)$text
  expect_match(text, "^!the rows of a Spark task on .*: .* in a record batch of Spark$")
  job$kinds <- c(x = "d", y = "i", z = "l")
  batch <- base64_bytes(every_kind)
  expect_match(carry_main(list(list(batch)), job)$text, "^!the rows .*: no rows for me$")
  job$f <- function(rows, context) list(rows$x * 2, paste0(rows$y, context))
  text <- carry_main(list(list(batch)), job)$text # the fourth column is carried
  expect_identical(text, paste0("{\"carried\":[\u00e9,NA,],\"a1\":[3,null,\"NaN\"],",
                                "\"a2\":[\"3me\",\"NAme\",\"-1me\"]}"))
  job$f <- function(rows, context) list(1)
  expect_match(carry_main(list(list(batch)), job)$text, "^!")
})
