# SPDX-License-Identifier: Apache-2.0

part <- function(chain, used = chain, kind = "factor") {
  list(kind = kind, chain = chain, used = used, contrasts = character())
}
order_of <- function(...) levels_of_variable("f", list(...))[-1L]

test_that("levels that each rank has made come in the order that factor() gives them all", {
  expect_identical(order_of(part("8"), part(c("4", "6"))), c("4", "6", "8"))
  expect_identical(order_of(part("10"), part("9"), part("-1e3")), c("-1e3", "9", "10"))
  expect_identical(order_of(part(c("10", "9")), part("2")), c("10", "2", "9")) # of strings
  expect_identical(order_of(part("TRUE"), part("FALSE")), c("FALSE", "TRUE"))
  strings <- function(...) part(character(), c(...), "strings")
  expect_identical(order_of(strings("9"), strings("b", "10")), c("10", "9", "b"))
  expect_identical(order_of(part("b"), strings("a")), c("a", "b"))
})

test_that("levels that a user has ordered stay in that order, of which each rank has a part", {
  sizes <- c("small", "medium", "large")
  expect_identical(order_of(part(sizes, "large"), part(sizes, "small")), c("small", "large"))
  expect_identical(order_of(part(sizes[2:3]), part(sizes[1:2])), sizes)
  expect_identical(order_of(part(c("c", "a")), part(c("c", "b"))), c("c", "a", "b"))
  expect_identical(order_of(part(sizes, character()), part(character(), "new", "strings")), "new")
  ordered <- levels_of_variable("f", list(part(sizes, kind = "ordered"), part(sizes, character())))
  expect_identical(ordered, c("ordered", sizes))
})

test_that("levels that contradict each other are an error", {
  expect_error(order_of(part(c("b", "a")), part(c("a", "b"))),
               "levels of `f` come in one order on one rank and in another .* a, b: make the col")
  expect_error(order_of(part(c("low", "high"), kind = "ordered"), part("mid", kind = "ordered")),
               "levels of `f` are ordered, and no rank has the order of low, mid")
  expect_error(order_of(part("a", kind = "ordered"), part("b")), "is an ordered factor on one rank")
})

test_that("an error about levels is one on all ranks, and the communicator goes on", {
  results <- run_ring(2, {
    data <- data.frame(y = 1:4, f = rep(c("b", "a"), 2))
    data$f <- factor(data$f, if (rank == 0) c("a", "b") else c("b", "a"))
    list(tryCatch(ring_glm(comm, y ~ f, data = data), error = conditionMessage),
         tryCatch(ring_mlp(comm, f ~ y, data), error = conditionMessage), ring_allreduce(comm, 1))
  })
  for (result in results) {
    for (text in result[1:2]) expect_match(text, "the levels of `f` come in one order on one rank")
    expect_identical(result[[3]], 2)
  }
})
