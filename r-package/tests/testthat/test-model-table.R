# SPDX-License-Identifier: Apache-2.0
#
# The parts of a model of a Spark table. test-sparklyr.R has all of it, on Spark.

test_that("the model of a table is fitted by the ranks, with what the formula needs", {
  big <- rnorm(1e5)
  half <- function(x) x / k
  k <- 2
  call <- quote(ring_lm(comm = tbl, formula = mpg ~ half(wt) + I(hp^k), weights = qsec / k,
                        num_proc = 3, ridge = k / 2))
  parts <- table_arguments(call, environment(), names(mtcars))
  expect_identical(parts$spark, list(num_proc = 3))
  expect_identical(parts$model$weights, quote(qsec / k))
  expect_identical(parts$model$ridge, 1)
  expect_lt(length(serialize(parts, NULL)), 20000)
  results <- run_ring(2, table_rank(one_half(mtcars, rank), comm, "ring_lm", parts$model),
                      parts = parts, one_half = function(data, rank) data[1:16 + 16 * rank, ])
  comm <- local_world()
  truth <- ring_lm(comm, mpg ~ half(wt) + I(hp^k), mtcars, weights = qsec / k, ridge = 1)
  expect_equal(coef(results[[1]]), coef(truth), tolerance = 1e-12)
  expect_null(results[[2]])
})

test_that("predictions add columns to the rows of a table", {
  comm <- local_world()
  fit <- ring_lm(comm, mpg ~ wt, mtcars)
  predicted <- function(...) {
    table_predicted(mtcars, unserialize(serialize(list(model = fit, arguments = list(...)), NULL)))
  }
  expect_equal(predicted()$.fitted, unname(fitted(lm(mpg ~ wt, mtcars))))
  expect_named(predicted(se.fit = TRUE, interval = "confidence"),
               c(names(mtcars), ".fitted", ".se.fit", ".lower", ".upper"))
})

test_that("classes of a network are strings, and probabilities are columns", {
  comm <- local_world()
  set.seed(1)
  fit <- ring_mlp(comm, Species ~ ., iris, hidden = 3L, max_iter = 20L)
  predicted <- function(type) {
    arguments <- list(type = type)
    found <- table_predicted(iris, list(model = fit, arguments = arguments))
    added <- found[setdiff(names(found), names(iris))]
    expect_identical(vapply(added, typeof, ""), table_columns(fit, arguments))
    added
  }
  expect_identical(predicted("class")$.fitted, as.character(predict(fit, iris)))
  expect_equal(as.matrix(predicted("prob")), predict(fit, iris, "prob"), ignore_attr = TRUE)
  expect_named(predicted("prob"), paste0(".prob_", levels(iris$Species)))
})

test_that("arguments of the other form are errors", {
  comm <- local_world()
  expect_error(ring_lm(comm, mpg ~ wt, mtcars, num_proc = 3),
               "there is no argument `num_proc` with a communicator", class = "ring_error_invalid")
  expect_error(ring_glm(comm, mpg ~ wt, data = mtcars, num_proc = 3), "no argument `num_proc`")
  skip_if(requireNamespace("sparklyr", quietly = TRUE))
  table <- structure(list(), class = "tbl_spark")
  expect_error(ring_lm(table, mpg ~ wt), "the package sparklyr is not installed")
})
