# SPDX-License-Identifier: Apache-2.0

strings <- transform(iris, Species = as.character(Species))
virginica <- transform(iris, is = factor(Species == "virginica"))

# Sorted, so that no rank has all levels, and rank 0 lacks the first; and then rank 0 has no rows.
descending <- mtcars[order(-mtcars$cyl, -mtcars$am), ]
descending$gears <- 13 - descending$gear # 8, 9 and 10
first_empty <- function(data, rank, size) {
  block <- (seq_len(nrow(data)) - 1) %/% ceiling(nrow(data) / (size - 1)) + 1
  data[block == rank, , drop = FALSE]
}

# model, data, further arguments, split.
models <- list(
  factor_made = list(mpg ~ factor(cyl) + wt, descending, list(), in_blocks),
  factor_made_of_numbers = list(mpg ~ as.factor(gears), descending, list(), in_blocks),
  factor_made_late = list(mpg ~ factor(cyl), descending, list(), first_empty),
  ordered_made = list(mpg ~ factor(cyl, ordered = TRUE), descending, list(), in_blocks),
  logical_made = list(mpg ~ factor(cyl < 8), descending, list(), in_blocks),
  logical_response = list(
    factor(am == 1) ~ wt, mtcars[order(-mtcars$am), ], list(family = binomial), in_blocks
  ),
  response_made = list(
    factor(am) ~ wt, mtcars[order(-mtcars$am), ], list(family = binomial), in_blocks
  ),
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
    scope <- list(data = rows(model[[2L]], if (length(model) > 3L) model[[4L]]))
    call <- c(first, model[[1L]], data = quote(data), if (length(model) > 2L) model[[3L]])
    eval(as.call(call), scope)
  })
}

test_that("every family gives what glm() gives on all rows", {
  results <- run_ring(3, {
    rows <- function(data, split) (if (is.null(split)) dealt else split)(data, rank, size)
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
  expect_equal(confint(fit, method = "wald"), confint.default(truth))
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

test_that("a prediction takes constants and functions from where the model was fitted", {
  comm <- local_world()
  scope <- globalenv()
  scope$power_of_test <- 2
  scope$wt <- 1:3
  on.exit(rm(power_of_test, wt, envir = scope))
  fitted_here <- function(ring) {
    power_of_test <- 3
    shift <- function(x) x + half(power_of_test)
    half <- function(x) x / 2
    formula <- mpg ~ I(wt^power_of_test) + shift(hp)
    if (ring) ring_glm(comm, formula, data = mtcars, offset = qsec / power_of_test)
    else glm(update(formula, . ~ . + offset(qsec / power_of_test)), data = mtcars)
  }
  fit <- fitted_here(TRUE)
  truth <- fitted_here(FALSE)
  # predict.glm() of some versions of R takes what the offset needs from the global environment.
  expect_equal(predict(fit, mtcars), fitted(truth))
  expect_equal(predict(unserialize(serialize(fit, NULL)), mtcars), fitted(truth))
  expect_identical(sort(ls(environment(formula(fit)))), c("half", "power_of_test", "shift"))
  expect_error(predict(fit), "predict\\(\\) needs `newdata`, a data frame")
  expect_error(predict(fit, mtcars[c("hp", "qsec")]), "`newdata` has no column wt")
})

test_that("a model holds no rows, however it was fitted", {
  comm <- local_world()
  fitted_in <- function() {
    data <- data.frame(x = rnorm(1e5), f = sample(c("a", "b"), 1e5, TRUE))
    data$y <- rbinom(1e5, 1, 0.5)
    twice <- function(x) 2 * x
    list(
      ring_glm(comm, y ~ twice(x) + f, family = binomial(link = logit), data = data),
      do.call(ring_glm, list(comm, y ~ x, binomial, data = data, weights = data$x > 0)),
      ring_glm(comm, data$y ~ data$x), do.call(ring_mlp, list(comm, f ~ x, data, max_iter = 1)),
      ring_mlp(comm, f ~ twice(x), data, max_iter = 1)
    )
  }
  for (fit in fitted_in()) expect_lt(length(serialize(fit, NULL)), 60000)
  expect_lt(as.double(object.size(fitted_in()[[1]])), 100000)
})

test_that("a model predicts where spark_apply() has sent it, in a process with nothing else", {
  comm <- local_world()
  fitted_in <- function() {
    power <- 2
    twice <- function(x) power * x
    data <- mtcars
    list(
      glm = ring_glm(comm, mpg ~ I(wt^power) + twice(hp) + factor(cyl), data = data),
      mlp = ring_mlp(comm, factor(am) ~ I(wt^power) + twice(hp), data = data, hidden = 2)
    )
  }
  models <- fitted_in()
  closure <- function(df, model) {
    loadNamespace("sparkring")
    data.frame(mpg = predict(model$glm, df), am = as.character(predict(model$mlp, df)))
  }
  environment(closure) <- globalenv()
  sent <- lapply(list(closure = closure, context = models), serialize, NULL, version = 2)
  results <- run_ranks(2, {
    closure <- unserialize(sent$closure)
    closure(mtcars[seq_len(32) %% 2 == rank, ], unserialize(sent$context))
  }, sent = sent)
  truth <- fitted(glm(mpg ~ I(wt^2) + hp + factor(cyl), data = mtcars))
  for (rank in 0:1) {
    rows <- seq_len(32) %% 2 == rank
    expect_equal(results[[rank + 1]]$mpg, unname(truth[rows]))
    expect_identical(results[[rank + 1]]$am, as.character(predict(models$mlp, mtcars[rows, ])))
  }
})

test_that("a model without coefficients is one, too", {
  comm <- local_world()
  fit <- ring_glm(comm, carb ~ 0, family = poisson(), data = mtcars)
  truth <- glm(carb ~ 0, family = poisson(), data = mtcars)
  same <- c("coefficients", "deviance", "null.deviance", "aic", "df.residual", "df.null", "rank")
  expect_equal(fit[same], truth[same])
  expect_equal(predict(fit, mtcars), unname(predict(truth, mtcars)), ignore_attr = TRUE)
  expect_identical(dim(coef(summary(fit))), c(0L, 4L))
  expect_output(print(fit), "No coefficients")
  expect_output(print(summary(fit)), "No Coefficients")
})

test_that("a method that needs rows is an error, and aliased coefficients have a place in vcov()", {
  comm <- local_world()
  fit <- ring_glm(comm, mpg ~ wt + I(2 * wt), data = mtcars)
  truth <- glm(mpg ~ wt + I(2 * wt), data = mtcars)
  expect_equal(vcov(fit), vcov(truth))
  expect_equal(vcov(fit, complete = FALSE), vcov(truth, complete = FALSE))
  expect_equal(confint(fit, method = "wald"), confint.default(truth))
  read <- unserialize(serialize(fit, NULL))
  expect_error(fitted(read), "fitted\\(\\) needs the rows, and a ring_glm holds none: call it on")
  expect_error(residuals(read), "residuals\\(\\) needs the rows")
  expect_message(expect_equal(confint(read), confint.default(truth)), "Wald's intervals")
})

test_that("a family is found where ring_glm() is called", {
  comm <- local_world()
  local_family <- function() poisson("sqrt")
  fit <- ring_glm(comm, carb ~ wt, family = "local_family", data = mtcars)
  expect_identical(family(fit)$link, "sqrt")
})

test_that("ranks that do not fit the same model are named", {
  results <- run_ring(3, {
    data <- dealt(mtcars, rank, size)
    odd <- rank == 1
    text <- function(...) {
      tryCatch(ring_glm(comm, ..., data = data), error = conditionMessage)
    }
    power <- if (odd) 2 else 1
    list(
      text(carb ~ wt, family = if (odd) "poisson" else "gaussian"),
      text(am ~ wt, family = binomial(if (odd) "logit" else "probit")),
      text(mpg ~ wt, control = list(maxit = if (odd) 5 else 25)),
      text(if (odd) hp ~ wt else mpg ~ wt), text(mpg ~ I(wt^power)),
      text(mpg ~ wt, start = c(1, rank)), tryCatch(
        ring_glm(comm, mpg ~ wt, data = data[0, ]), error = conditionMessage
      ),
      ring_allreduce(comm, 1)
    )
  }, dealt = dealt)
  for (texts in results) {
    expect_match(texts[[1]], "rank 1 has another family than rank 0: poisson log, and not gaussian")
    expect_match(texts[[2]], "rank 1 has another family than rank 0: binomial logit, and not binom")
    expect_match(texts[[3]], "rank 1 has another control than rank 0: .*maxit = 5.*, and not")
    expect_match(texts[[4]], "rank 1 has another response than rank 0: hp, and not mpg")
    expect_match(texts[[5]], "`power` is 2 on rank 1 and 1 on rank 0: what is not a column must be")
    expect_match(texts[[6]], "rank 1 has another start than rank 0: c\\(1, 1\\), and not c")
    expect_match(texts[[7]], "there are no rows without missing values on any rank")
    expect_identical(texts[[8]], 3)
  }
})

test_that("an error on one rank is one on all, and the communicator goes on", {
  results <- run_ring(3, {
    data <- dealt(mtcars, rank, size)
    text <- function(...) {
      tryCatch(ring_glm(comm, ..., data = data), error = function(error) {
        c(conditionMessage(error), inherits(error, "ring_error_invalid"))
      })
    }
    if (rank == 1) data$am <- NULL
    if (rank == 2) data$gear <- as.character(data$gear)
    if (rank == 0) data$mpg <- -data$mpg
    list(
      text(mpg ~ am), text(mpg ~ gear), text(mpg ~ wt, family = poisson()), text(mpg ~ rank(wt)),
      text(~wt), text(mpg ~ wt, family = "nonsense"), text(mpg ~ wt, start = 1),
      text(cbind(mpg, wt) ~ hp), ring_allreduce(comm, 1)
    )
  }, dealt = dealt)
  other <- results[[1]]
  expect_identical(other[[1]], c("rank 1 (127.0.0.1) failed: object 'am' not found", "TRUE"))
  expect_identical(results[[2]][[1]], c("object 'am' not found", "TRUE"))
  expect_match(results[[3]][[2]][[1]], "`gear` is numbers on rank 0 and a factor or strings on")
  expect_match(results[[2]][[3]][[1]], "rank 0 .*: negative values not allowed for the 'Poisson'")
  expect_match(other[[4]][[1]], "rank\\(wt\\) depends on all rows, and each rank has only")
  expect_match(other[[5]][[1]], "the formula has no response")
  expect_match(other[[6]][[1]], "`family` must be a family such as binomial.., not \"nonsense\"")
  expect_match(other[[7]][[1]], "`start` must have 2 values, one for each coefficient")
  expect_match(other[[8]][[1]], "the response of a gaussian model must be one vector, not a matrix")
  expect_identical(lapply(results, `[[`, 9), list(3, 3, 3))
})

test_that("a fit that does not converge warns", {
  comm <- local_world()
  data <- data.frame(x = 1:20, y = rep(0:1, each = 10))
  expect_warning(ring_glm(comm, y ~ x, family = binomial(), data = data, control = list(maxit = 3)),
                 "did not converge")
  expect_message(ring_glm(comm, mpg ~ wt, data = mtcars, control = list(trace = TRUE)),
                 "ring_glm: deviance 278.3")
})

test_that("fits at the edge of the family warn as glm() does", {
  results <- run_ring(2, {
    data <- data.frame(x = 1:20, y = rep(0:1, each = 10))
    warned <- function(...) {
      texts <- character()
      withCallingHandlers(ring_glm(comm, ...), warning = function(warning) {
        texts <<- c(texts, conditionMessage(warning))
        invokeRestart("muffleWarning")
      })
      texts
    }
    list(warned(y ~ x, binomial, in_blocks(data, rank, size)),
         warned(y ~ factor(y), poisson, in_blocks(data, rank, size),
                control = list(epsilon = 1e-15, maxit = 60)))
  }, in_blocks = in_blocks)
  for (texts in results) {
    expect_match(texts[[1]], "fitted probabilities numerically 0 or 1 occurred", all = FALSE)
    expect_match(texts[[2]], "fitted rates numerically 0 occurred", all = FALSE)
  }
})
