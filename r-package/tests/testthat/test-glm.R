# SPDX-License-Identifier: Apache-2.0

# Every third row, so that ranks have different ones; rank 1 of the second split has none.
dealt <- function(data, rank, size) data[seq_len(nrow(data)) %% size == rank, , drop = FALSE]
one_empty <- function(data, rank, size) {
  if (rank == 1) data[0, , drop = FALSE] else dealt(data, rank %/% 2, size - 1)
}
in_blocks <- function(data, rank, size) {
  data[(seq_len(nrow(data)) - 1) %/% ceiling(nrow(data) / size) == rank, , drop = FALSE]
}

strings <- transform(iris, Species = as.character(Species))
virginica <- transform(iris, is = factor(Species == "virginica"))

# model, data, further arguments, split.
models <- list(
  gaussian = list(mpg ~ wt + factor(cyl), mtcars),
  binomial = list(am ~ wt, mtcars, list(family = "binomial")),
  probit = list(am ~ wt, mtcars, list(family = binomial("probit"))),
  cloglog = list(am ~ wt, mtcars, list(family = binomial("cloglog"))),
  cauchit = list(am ~ wt, mtcars, list(family = binomial("cauchit"))),
  poisson = list(carb ~ hp + wt, mtcars, list(family = poisson)),
  quasipoisson = list(carb ~ hp + wt, mtcars, list(family = quasipoisson)),
  quasibinomial = list(am ~ wt, mtcars, list(family = quasibinomial)),
  quasi = list(mpg ~ wt, mtcars, list(family = quasi("log", "mu"))),
  gamma = list(mpg ~ wt, mtcars, list(family = Gamma("log"), weights = quote(qsec))),
  inverse = list(mpg ~ wt, mtcars, list(family = inverse.gaussian)),
  weights = list(mpg ~ wt, mtcars, list(weights = quote(carb))),
  zero_weights = list(mpg ~ wt, mtcars, list(weights = quote(am))),
  offset = list(carb ~ wt + offset(log(cyl)), mtcars, list(family = poisson)),
  offset_argument = list(carb ~ wt, mtcars, list(family = poisson, offset = quote(log(cyl)))),
  subset = list(mpg ~ wt, mtcars, list(subset = quote(cyl > 4))),
  aliased = list(mpg ~ wt + I(2 * wt) + hp, mtcars),
  no_intercept = list(mpg ~ 0 + wt, mtcars),
  dot = list(mpg ~ ., mtcars),
  counts = list(cbind(ncases, ncontrols) ~ agegp, esoph, list(family = binomial)),
  factor_response = list(is ~ Sepal.Length, virginica, list(family = binomial)),
  interaction = list(Sepal.Length ~ Species * Petal.Width, iris, list(), in_blocks),
  a_string_a_rank = list(Sepal.Length ~ Species, strings, list(), in_blocks),
  sum_contrasts = list(
    Sepal.Length ~ Species, iris, list(contrasts = list(Species = "contr.sum")), in_blocks
  ),
  empty_rank = list(Sepal.Length ~ Species + Petal.Width, iris, list(), one_empty),
  empty_binomial = list(am ~ wt, mtcars, list(family = binomial), one_empty),
  missing = list(Ozone ~ Solar.R + Wind, airquality, list(family = Gamma("log"))),
  start = list(am ~ wt, mtcars, list(family = binomial, start = c(10, -3)))
)

fit_all <- function(first, models, rows) {
  lapply(models, function(model) {
    scope <- list(data = rows(model[[2L]], if (length(model) > 3L) model[[4L]] else dealt))
    call <- c(first, model[[1L]], data = quote(data), if (length(model) > 2L) model[[3L]])
    eval(as.call(call), scope)
  })
}

test_that("every family gives what glm() gives on all rows", {
  results <- run_ring(3, {
    rows <- function(data, split) split(data, rank, size)
    fit_all(list(ring_glm, comm), models, rows)
  }, models = models, fit_all = fit_all, dealt = dealt)
  whole <- fit_all(list(glm), models, function(data, split) data)
  # glm() takes the logarithm of weights of 0, too.
  whole$zero_weights$aic <- AIC(glm(mpg ~ wt, data = mtcars, subset = am > 0))
  for (name in names(models)) {
    fit <- results[[1]][[name]]
    truth <- whole[[name]]
    expected <- suppressWarnings(summary(truth)) # rows of weight 0
    expect_equal(coef(fit), coef(truth), tolerance = 1e-10, info = name)
    expect_equal(unname(coef(summary(fit))), unname(expected$coefficients), tolerance = 1e-8,
                 info = name)
    for (field in c("deviance", "null.deviance", "aic", "df.residual", "df.null", "iter", "rank")) {
      expect_equal(fit[[field]], truth[[field]], tolerance = 1e-10, info = paste(name, field))
    }
  }
  numbers <- function(fits) lapply(fits, `[`, c("coefficients", "covariance", "deviance", "aic"))
  expect_identical(numbers(results[[2]]), numbers(results[[1]]))
  expect_identical(numbers(results[[3]]), numbers(results[[1]]))
})

test_that("columns that are nearly the same keep their digits", {
  set.seed(1)
  data <- data.frame(a = rnorm(5000), b = 1e6 + rnorm(5000))
  data$y <- rpois(5000, exp(0.3 * data$a))
  results <- run_ring(2, {
    ring_glm(comm, y ~ a + b, family = poisson(), data = dealt(data, rank, size))
  }, data = data, dealt = dealt)
  truth <- glm(y ~ a + b, family = poisson(), data = data)
  expect_equal(coef(results[[1]]), coef(truth), tolerance = 1e-7)
  expect_equal(sqrt(diag(vcov(results[[1]]))), sqrt(diag(vcov(truth))), tolerance = 1e-8)
})

test_that("a model has the methods of its kind, and none of its rows", {
  comm <- local_world()
  fit <- ring_glm(comm, am ~ wt + factor(cyl), family = binomial(), data = mtcars)
  truth <- glm(am ~ wt + factor(cyl), family = binomial(), data = mtcars)
  for (type in c("link", "response")) {
    expect_equal(predict(fit, mtcars, type), predict(truth, mtcars, type))
    expect_equal(predict(fit, mtcars[1:3, ], type, se.fit = TRUE)[1:2],
                 predict(truth, mtcars[1:3, ], type, se.fit = TRUE)[1:2])
  }
  expect_equal(confint(fit), confint.default(truth))
  expect_equal(c(AIC(fit), BIC(fit)), c(AIC(truth), BIC(truth)))
  expect_equal(vcov(fit), vcov(truth))
  expect_identical(nobs(fit), 32L)
  expect_identical(family(fit)$link, "logit")
  expect_output(print(fit), "Residual Deviance: 14.66")
  expect_output(print(summary(fit)), "wt +-7.859 +3.055 +-2.573 +0.01009")
  expect_lt(length(serialize(fit, NULL)), 50000)
  known <- predict(fit, data.frame(wt = c(3, NA), cyl = 4))
  expect_identical(is.na(unname(known)), c(FALSE, TRUE))
  expect_error(predict(fit, data.frame(wt = 3, cyl = 5)), "new level")
})

test_that("offsets are part of a prediction", {
  comm <- local_world()
  fit <- ring_glm(comm, carb ~ wt, family = poisson(), data = mtcars, offset = log(cyl))
  truth <- glm(carb ~ wt, family = poisson(), data = mtcars, offset = log(cyl))
  expect_equal(predict(fit, mtcars), predict(truth, mtcars))
  inside <- ring_glm(comm, carb ~ wt + offset(log(cyl)), family = poisson(), data = mtcars)
  expect_equal(predict(inside, mtcars), predict(truth, mtcars))
})

test_that("an error on one rank is one on all, and the communicator goes on", {
  results <- run_ring(3, {
    data <- dealt(mtcars, rank, size)
    said <- function(...) {
      tryCatch(ring_glm(comm, ..., data = data), error = function(error) {
        c(conditionMessage(error), inherits(error, "ring_error_invalid"))
      })
    }
    if (rank == 1) data$am <- NULL
    if (rank == 2) data$gear <- as.character(data$gear)
    if (rank == 0) data$mpg <- -data$mpg
    list(
      said(mpg ~ am), said(mpg ~ gear), said(mpg ~ wt, family = poisson()), said(mpg ~ poly(wt, 2)),
      said(~wt), said(mpg ~ wt, family = "nonsense"), said(mpg ~ wt, start = 1),
      ring_allreduce(comm, 1)
    )
  }, dealt = dealt)
  other <- results[[1]]
  expect_identical(other[[1]], c("rank 1 (127.0.0.1) failed: object 'am' not found", "TRUE"))
  expect_identical(results[[2]][[1]], c("object 'am' not found", "FALSE"))
  expect_match(results[[3]][[2]][[1]], "rank 0 .* `gear` is a numeric of length 10 here, and a fac")
  expect_match(results[[2]][[3]][[1]], "rank 0 .*: negative values not allowed for the 'Poisson'")
  expect_match(other[[4]][[1]], "poly\\(wt, 2\\) depends on all rows, and each rank has only")
  expect_match(other[[5]][[1]], "the formula has no response")
  expect_match(other[[6]][[1]], "object 'nonsense' of mode 'function' was not found")
  expect_match(other[[7]][[1]], "`start` must have 2 values, one for each coefficient")
  expect_identical(lapply(results, `[[`, 8), list(3, 3, 3))
})

test_that("a fit that does not converge says so", {
  comm <- local_world()
  data <- data.frame(x = 1:20, y = rep(0:1, each = 10))
  expect_warning(ring_glm(comm, y ~ x, family = binomial(), data = data, control = list(maxit = 3)),
                 "did not converge")
  expect_message(ring_glm(comm, mpg ~ wt, data = mtcars, control = list(trace = TRUE)),
                 "ring_glm: deviance 278.3")
})
