# SPDX-License-Identifier: Apache-2.0

test_that("replies that an interrupt has left over are read before a call", {
  left <- c("cancelled as part of cancellation of all jobs", "sparklyr")
  asked <- 0L
  ask <- function(sc, text) {
    asked <<- asked + 1L
    left <<- c(left, text)
    reply <- left[[1L]]
    left <<- left[-1L]
    if (startsWith(reply, "cancelled")) stop(reply)
    reply
  }
  sync_connection(NULL, ask, drain = function(sc) left <<- character())
  expect_identical(left, character())
  expect_identical(asked, 2L)
  sync_connection(NULL, ask, drain = function(sc) stop("not asked for"))
  expect_identical(asked, 3L)
})
