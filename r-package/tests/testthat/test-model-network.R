# SPDX-License-Identifier: Apache-2.0
#
# The Params of networks. test-sparklyr-network.R trains them, on Spark.

columns_of <- function(formula, params = list()) {
  network_columns(formula, c("y", "a", "b c", "w", "held"), params)
}

test_that("a formula names the columns", {
  expect_identical(columns_of(y ~ `b c` + a), list(inputCols = list("b c", "a"), labelCol = "y"))
  expect_identical(
    columns_of(y ~ ., list(weight_col = "w", validation = "held"))$inputCols, list("a", "b c")
  )
})

test_that("a formula with other terms is an error", {
  for (formula in list(log(y) ~ a, y ~ log(a), y ~ a:w, y ~ 1, ~ a, y ~ z)) {
    expect_error(columns_of(formula), "label ~ column + column", fixed = TRUE,
                 class = "ring_error_invalid")
  }
  expect_error(columns_of(y ~ a + z), "`z` is none")
})

test_that("Params get Python's names and types", {
  params <- network_params(list(
    batch_size = 32, model_params = list(hidden = 8, rate = 0.5, sizes = c(4, 2)), seed = 1L,
    class_weights = c(1, 2.5), output_cols = "p", validation = 0.25
  ))
  expect_identical(params, list(
    batchSize = 32L, modelParams = list(hidden = 8L, rate = 0.5, sizes = c(4L, 2L)), seed = 1L,
    classWeights = list(1, 2.5), outputCols = list("p"), validation = 0.25
  ))
  expect_error(network_params(list(3)), "by name", class = "ring_error_invalid")
})
