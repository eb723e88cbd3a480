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

test_that("a column that predictions would add twice is refused by its name", {
  refused <- function(message, columns) {
    expect_error(table_check_added(c("PC1", "PC2"), columns), message, class = "ring_error_invalid")
  }
  refused("the Spark table has a column `PC2` already: leave it out", c("n", "PC2"))
  refused("a column `pc1` already, which Spark does not distinguish from `PC1`: l", c("pc1", "n"))
  expect_null(table_check_added(c("PC1", "PC2"), c("n", "PC3")))
})

# nolint start: object_usage_linter. A helper.
# The columns that predictions add to rows, as a task makes them. They have the types that Spark
# expects.
added <- function(fit, rows, ..., response = NULL) {
  context <- list(arguments = list(...), prefix = "", response = response)
  types <- table_columns(fit, context)
  context <- c(list(model = fit, names = names(types)), context)
  needed <- table_needed(fit, context, names(rows))
  found <- table_predicted(rows[needed], unserialize(serialize(context, NULL)))
  kinds <- c(double = "double", integer = "int", character = "string")
  expect_identical(kinds[vapply(found, typeof, "")], types, ignore_attr = TRUE)
  expect_named(found, names(types))
  as.data.frame(found, optional = TRUE)
}
# nolint end

test_that("predictions are columns, from the columns that the model needs", {
  comm <- local_world()
  fit <- ring_lm(comm, mpg ~ wt + offset(hp / 100), mtcars, offset = qsec)
  truth <- lm(mpg ~ wt + offset(hp / 100), mtcars, offset = qsec)
  expect_equal(added(fit, mtcars)$.fitted, unname(fitted(truth)))
  expect_named(added(fit, mtcars, se.fit = TRUE, interval = "confidence"),
               c(".fitted", ".se.fit", ".lower", ".upper"))
  expect_equal(added(fit, mtcars, response = quote(mpg))$.resid, unname(resid(truth)))
  needed <- function(columns) table_needed(fit, list(), columns)
  expect_identical(needed(names(mtcars)), c("hp", "wt", "qsec"))
  expect_error(needed(c("hp", "wt")), "the Spark table has no column `qsec`")
  none <- ring_lm(comm, mpg ~ 1, mtcars)
  expect_equal(added(none, mtcars)$.fitted, rep(mean(mtcars$mpg), 32))
  expect_error(table_check_arguments(list(type = "terms")), "no `type = \"terms\"` for a Spark")
  expect_error(table_check_arguments(list(na.action = "na.omit")), "no argument `na.action`")
})

test_that("classes of a network are strings, and probabilities are columns", {
  comm <- local_world()
  set.seed(1)
  fit <- ring_mlp(comm, Species ~ ., iris, hidden = 3L, max_iter = 20L)
  expect_identical(added(fit, iris)$.fitted, as.character(predict(fit, iris)))
  expect_equal(as.matrix(added(fit, iris, type = "prob")), predict(fit, iris, "prob"),
               ignore_attr = TRUE)
  expect_named(added(fit, iris, type = "prob"), paste0(".prob_", levels(iris$Species)))
})

test_that("clusters, scores and penalised models have columns of predictions", {
  comm <- local_world()
  set.seed(1)
  clusters <- ring_kmeans(comm, iris[1:4], 3)
  expect_identical(added(clusters, iris)$.cluster, unname(clusters$cluster))
  scores <- ring_prcomp(comm, iris[1:4], rank. = 2)
  expect_equal(as.matrix(added(scores, iris)), predict(scores, iris), ignore_attr = TRUE)
  lasso <- ring_glmnet(comm, iris[2:4], iris$Sepal.Length, lambda = c(0.1, 0.01))
  expect_equal(added(lasso, iris, s = 0.1)$.fitted, predict(lasso, iris[2:4], 0.1)[, 1])
  classes <- ring_glmnet(comm, iris[1:4], iris$Species, "multinomial", lambda = 0.1)
  chances <- added(classes, iris, s = 0.1, type = "response")
  expect_named(chances, paste0(".prob_", levels(iris$Species)))
  expect_equal(rowSums(chances), rep(1, 150), ignore_attr = TRUE)
  expect_true(all(added(classes, iris, s = 0.1, type = "class")$.fitted %in% levels(iris$Species)))
  expect_error(glmnet_predict_table(lasso, NULL, NULL, "link", 0), "pass one penalty as `s`")
  expect_error(glmnet_predict_table(classes, NULL, 0.1, "link", 0), "type = \"response\"")
  tall <- transform(iris, tall = Sepal.Length > 6)
  moved <- ring_glmnet(comm, iris[2:4], tall$tall, "binomial", offset = iris$Sepal.Length,
                       lambda = 0.1)
  fitted <- predict(moved, iris[2:4], type = "response", offset = iris$Sepal.Length)
  found <- added(moved, iris, type = "response", offset = "Sepal.Length")
  expect_equal(found$.fitted, fitted[, 1])
  expect_error(table_needed(lasso, list(), c("Sepal.Width", "Petal.Length")),
               "the Spark table has no column `Petal.Width`")
})

test_that("arguments of the other form are errors", {
  comm <- local_world()
  expect_error(ring_lm(comm, mpg ~ wt, mtcars, num_proc = 3),
               "there is no argument `num_proc` with a communicator", class = "ring_error_invalid")
  expect_error(ring_glm(comm, mpg ~ wt, data = mtcars, num_proc = 3), "no argument `num_proc`")
  expect_error(ring_kmeans(comm, mtcars, 2, num_proc = 3), "no argument `num_proc`")
  expect_error(ring_lm(mtcars, mpg ~ wt), "not a data frame: pass the communicator first")
  expect_error(table_check_formula(NULL), "`formula` must be a formula, such as mpg ~ wt, not NULL")
  expect_error(ml_ring_lm(mtcars, mpg ~ wt), "`x` must be a Spark table|sparklyr is not installed")
  expect_error(ml_ring_load(NULL, system.file("DESCRIPTION", package = "sparkring")), "readRDS")
  skip_if(requireNamespace("sparklyr", quietly = TRUE))
  table <- structure(list(), class = "tbl_spark")
  expect_error(ring_lm(table, mpg ~ wt), "the package sparklyr is not installed")
})
