# SPDX-License-Identifier: Apache-2.0

sorted <- mtcars[order(-mtcars$cyl), ]
lm_models <- list(
  plain = list(mpg ~ wt + factor(cyl), sorted, list(), in_blocks),
  weights = list(mpg ~ wt + hp, mtcars, list(weights = quote(carb)), dealt),
  zero_weights = list(mpg ~ wt, mtcars, list(weights = quote(am)), dealt),
  offset = list(mpg ~ wt + offset(qsec), mtcars, list(offset = quote(drat)), dealt),
  aliased = list(mpg ~ wt + I(2 * wt) + hp, mtcars, list(), dealt),
  no_intercept = list(mpg ~ 0 + wt + hp, mtcars, list(), dealt),
  only_intercept = list(mpg ~ 1, mtcars, list(), one_empty),
  empty_rank = list(Sepal.Length ~ Species * Petal.Width, iris, list(), one_empty),
  missing = list(Ozone ~ Solar.R + Wind, airquality, list(), in_blocks),
  subset = list(mpg ~ wt, mtcars, list(subset = quote(cyl > 4)), dealt),
  contrasts = list(
    Sepal.Length ~ Species, iris, list(contrasts = list(Species = "contr.sum")), in_blocks
  ),
  polynomial = list(mpg ~ poly(hp, 2, raw = TRUE), mtcars, list(), dealt)
)
fit_lm <- function(first, models, rows) {
  lapply(models, function(model) {
    call <- c(first, model[[1L]], data = quote(data), model[[3L]])
    eval(as.call(call), list(data = rows(model[[2L]], model[[4L]])))
  })
}

test_that("linear models are those of lm() on all rows", {
  results <- run_ring(3, {
    fit_lm(list(ring_lm, comm), lm_models, function(data, split) split(data, rank, size))
  }, fit_lm = fit_lm, lm_models = lm_models, dealt = dealt)
  whole <- fit_lm(list(lm), lm_models, function(data, split) data)
  for (name in names(lm_models)) {
    fit <- results[[1]][[name]]
    truth <- whole[[name]]
    found <- summary(fit)
    expected <- suppressWarnings(summary(truth))
    expect_identical(names(coef(fit)), names(coef(truth)))
    expect_lt(difference(coef(fit), coef(truth)), 1e-10)
    expect_lt(difference(found$coefficients, expected$coefficients), 1e-8)
    for (field in c("sigma", "r.squared", "adj.r.squared", "fstatistic", "cov.unscaled", "df")) {
      expect_equal(found[[field]], expected[[field]], tolerance = 1e-10, info = paste(name, field))
    }
    used <- is.null(truth$weights) | truth$weights > 0
    residuals <- weighted.residuals(truth)
    expect_equal(unname(found$residuals), unname(quantile(residuals)), tolerance = 1e-8,
                 info = name)
    expect_equal(confint(fit), confint(truth), tolerance = 1e-8, info = name)
    expect_equal(vcov(fit), vcov(truth), tolerance = 1e-10, info = name)
    expect_equal(as.numeric(logLik(fit)), as.numeric(logLik(truth)), tolerance = 1e-10, info = name)
    expect_equal(c(AIC(fit), BIC(fit)), c(AIC(truth), BIC(truth)), tolerance = 1e-10, info = name)
    # extractAIC() of lm() counts rows of weight 0.
    if (name != "zero_weights") expect_equal(extractAIC(fit), extractAIC(truth), info = name)
    if (name != "zero_weights" && length(coef(fit)) > 1) {
      expect_equal(as.data.frame(anova(fit)), as.data.frame(anova(truth)), tolerance = 1e-8,
                   info = name)
      expect_equal(as.data.frame(drop1(fit, test = "F")), as.data.frame(drop1(truth, test = "F")),
                   tolerance = 1e-8, info = name)
    }
  }
  numbers <- function(fits) lapply(fits, `[`, c("coefficients", "covariance", "deviance"))
  expect_identical(numbers(results[[2]]), numbers(results[[1]]))
  expect_identical(numbers(results[[3]]), numbers(results[[1]]))
})

test_that("Anova() of car makes the tests of larger and smaller models", {
  comm <- local_world()
  data <- transform(warpbreaks, x = sin(seq_along(breaks)))
  fit <- ring_lm(comm, breaks ~ wool * tension + x, data)
  found <- Anova.ring_lm(fit) # the values of car::Anova() of lm()
  changes <- list(wool = . ~ tension + x, tension = . ~ wool + x,
                  "wool:tension" = . ~ wool + tension + x, x = . ~ wool * tension)
  whole <- lm(breaks ~ wool * tension + x, data)
  for (term in names(changes)) {
    larger <- if (term %in% c("wool", "tension")) update(whole, . ~ wool + tension + x) else whole
    expect_equal(found[term, "Sum Sq"], deviance(update(whole, changes[[term]])) - deviance(larger))
  }
  expect_equal(found["Residuals", "Sum Sq"], deviance(whole))
  third <- Anova.ring_lm(fit, type = 3)
  expect_equal(unlist(third["x", ]), unlist(found["x", ]))
  expect_equal(third["(Intercept)", "F value"], coef(summary(whole))["(Intercept)", 3]^2)
  expect_equal(attr(found, "heading"), c("Anova Table (Type II tests)\n", "Response: breaks"))
  fit <- ring_glm(comm, breaks ~ wool * tension, poisson, data)
  expected <- drop1(glm(breaks ~ wool * tension, poisson, data), test = "LRT")[2, ]
  expect_equal(Anova.ring_glm(fit)["wool:tension", "LR Chisq"], expected$LRT)
  expect_equal(Anova.ring_glm(fit, 3, "Wald")["wool", "Chisq"],
               coef(summary(fit))["woolB", 3]^2)
  expect_equal(Anova.ring_glm(fit, 3)["wool:tension", "LR Chisq"], expected$LRT)
  expect_error(Anova.ring_glm(fit, type = 4), "`type` must be")
  expect_error(Anova.ring_lm(fit, white.adjust = TRUE), "there is no argument `white.adjust` for")
  # Without the intercept no coefficients are valid.
  fit <- ring_glm(comm, breaks ~ x, poisson("identity"), data)
  expected <- drop1(glm(breaks ~ x, poisson("identity"), data), test = "LRT")["x", ]
  expect_equal(Anova.ring_glm(fit, 3)["x", "LR Chisq"], expected$LRT)
})

test_that("columns with a condition number of 1e8 keep the digits of lm()", {
  set.seed(1)
  base <- qr.Q(qr(matrix(rnorm(4000 * 4), 4000)))
  x <- base %*% diag(10^-c(0, 3, 6, 8)) %*% t(qr.Q(qr(matrix(rnorm(16), 4))))
  data <- data.frame(x, y = drop(x %*% c(1, -2, 3, -4)) + rnorm(4000) * 1e-3)
  expect_gt(kappa(x, exact = TRUE), 0.99e8)
  scaled <- data.frame(a = rnorm(4000), b = 1e8 * rnorm(4000))
  scaled$y <- scaled$a + 1e-8 * scaled$b + rnorm(4000)
  fits <- run_ring(3, {
    list(ring_lm(comm, y ~ 0 + X1 + X2 + X3 + X4, dealt(data, rank, size), tol = 1e-12),
         ring_lm(comm, y ~ a + b, dealt(scaled, rank, size)))
  }, data = data, scaled = scaled, dealt = dealt)[[1]]
  truth <- lm(y ~ 0 + X1 + X2 + X3 + X4, data, tol = 1e-12)
  # Fitted values and tests have all digits. Rounding the data changes the coefficients up to the
  # bound of Wedin, and so much may two backward stable methods differ.
  expect_lt(difference(predict(fits[[1]], data), fitted(truth)), 1e-10)
  norm <- function(x) sqrt(sum(x^2))
  rest <- norm(residuals(truth)) / (norm(x) * norm(coef(truth)))
  bound <- .Machine$double.eps * 1e8 * (2 + 1e8 * rest)
  expect_lt(norm(coef(fits[[1]]) - coef(truth)) / norm(coef(truth)), 10 * bound)
  errors <- sqrt(diag(vcov(truth)))
  expect_lt(max(abs(coef(fits[[1]]) - coef(truth)) / errors), 1e-6)
  expect_lt(difference(coef(summary(fits[[1]]))[, 2], errors), 1e-7)
  expect_lt(difference(coef(fits[[2]]), coef(lm(y ~ a + b, scaled))), 1e-10)
  expect_equal(sqrt(diag(vcov(fits[[2]]))), sqrt(diag(vcov(lm(y ~ a + b, scaled)))),
               tolerance = 1e-10)
})

test_that("ridge is least squares of the data and the penalty", {
  comm <- local_world()
  x <- cbind(1, mtcars$wt, mtcars$hp)
  fit <- ring_lm(comm, mpg ~ wt + hp, mtcars, ridge = 3)
  bread <- solve(crossprod(x) + diag(c(0, 3, 3)))
  expect_equal(unname(coef(fit)), drop(bread %*% crossprod(x, mtcars$mpg)), tolerance = 1e-10)
  freedom <- sum(diag(bread %*% crossprod(x)))
  expect_equal(fit$df.residual, 32 - freedom, tolerance = 1e-10)
  residuals <- mtcars$mpg - x %*% coef(fit)
  expect_equal(unname(vcov(fit)), bread %*% crossprod(x) %*% bread * sum(residuals^2) /
                 (32 - freedom), tolerance = 1e-10)
  expect_error(ring_lm(comm, mpg ~ wt, mtcars, ridge = -1), "`ridge` must be one number, 0 or more")
  expect_equal(unname(predict(fit, mtcars, se.fit = TRUE)$se.fit^2),
               rowSums((x %*% vcov(fit)) * x), tolerance = 1e-10)
  # Dependent columns: the covariance has no inverse.
  twice <- ring_lm(comm, mpg ~ wt + I(2 * wt) + I(0 * hp), mtcars, ridge = 3)
  x <- cbind(1, mtcars$wt, 2 * mtcars$wt, 0)
  expect_equal(unname(predict(twice, mtcars, se.fit = TRUE)$se.fit^2),
               rowSums((x %*% vcov(twice)) * x), tolerance = 1e-8)
  for (f in list(anova, drop1, function(fit) add1(fit, ~ . + qsec), vcovHC.ring_lm)) {
    expect_error(f(fit), "\\(\\) is for models without `ridge`")
  }
})

test_that("models that explain a large response, or nothing, have the tables of lm()", {
  comm <- local_world()
  set.seed(5)
  data <- data.frame(x = rnorm(200), z = rnorm(200))
  data$y <- 1e8 * (1 + data$x) + rnorm(200)
  expect_warning(table <- drop1(ring_lm(comm, y ~ x + z, data), test = "F"), "perfect fit")
  expected <- suppressWarnings(drop1(lm(y ~ x + z, data), test = "F")) # of a perfect fit
  expect_equal(table["z", "RSS"], expected["z", "RSS"], tolerance = 1e-7)
  expect_equal(table["z", "Pr(>F)"], expected["z", "Pr(>F)"], tolerance = 1e-3)
  for (formula in c(mpg ~ 0, mpg ~ 0 + offset(wt), mpg ~ I(0 * wt) - 1)) {
    fit <- ring_lm(comm, formula, mtcars)
    truth <- lm(formula, mtcars)
    expect_equal(coef(fit), coef(truth), ignore_attr = TRUE)
    expect_equal(deviance(fit), deviance(truth))
    expect_equal(c(AIC(fit), sigma = summary(fit)$sigma), c(AIC(truth), summary(truth)$sigma),
                 ignore_attr = TRUE)
    # Both warn of a deficient rank.
    expect_equal(suppressWarnings(predict(fit, mtcars)), suppressWarnings(predict(truth, mtcars)))
    expect_output(print(fit), "oefficients")
  }
  expect_equal(deviance(ring_glm(comm, am ~ I(0 * wt) - 1, binomial, mtcars)),
               deviance(glm(am ~ I(0 * wt) - 1, binomial, mtcars)))
  gaps <- transform(mtcars, qsec = replace(qsec, 1:8, NA))
  expect_error(anova(ring_lm(comm, mpg ~ wt, gaps), ring_lm(comm, mpg ~ wt + qsec, gaps)),
               "models were not all fitted to the same size of dataset")
})

test_that("exact fits warn, and times are responses, as in lm()", {
  results <- run_ring(2, {
    data <- dealt(transform(mtcars, flat = 4, day = as.Date("2024-01-01") + mpg,
                            wait = as.difftime(mpg, units = "mins")), rank, size)
    text <- function(expr) tryCatch(expr, warning = conditionMessage, error = conditionMessage)
    flat <- ring_lm(comm, flat ~ wt, data)
    list(coef(ring_lm(comm, day ~ wt, data)), coef(ring_lm(comm, wait ~ wt, data)), coef(flat),
         text(summary(flat)), text(drop1(flat)), text(ring_glm(comm, wait ~ wt, data = data)),
         text(ring_glm(comm, factor(am) ~ wt, data = data)),
         text(anova(ring_glm(comm, mpg ~ factor(wt), data = data[1:2, ]), test = "F")))
  }, dealt = dealt)[[2]]
  slope <- coef(lm(mpg ~ wt, mtcars))
  expect_equal(results[[1]], slope + c(as.numeric(as.Date("2024-01-01")), 0))
  expect_equal(results[[2]], slope)
  expect_equal(results[[3]], c("(Intercept)" = 4, wt = 0))
  expect_match(results[[4]], "essentially perfect fit: summary may be unreliable")
  expect_match(results[[5]], "model selection on an essentially perfect fit is nonsense")
  expect_match(results[[6]], "must be numbers, not a difftime.*as.numeric\\(\\)")
  expect_match(results[[7]], "classes are for \"binomial\"")
  expect_match(results[[8]], "a saturated model has no dispersion for a test")
})

test_that("a linear model has the methods of lm()", {
  comm <- local_world()
  cars <- transform(mtcars, cyl = factor(cyl))
  fit <- ring_lm(comm, mpg ~ wt + cyl, cars, offset = drat / 10)
  truth <- lm(mpg ~ wt + cyl, cars, offset = drat / 10)
  for (interval in c("none", "confidence", "prediction")) {
    expect_equal(predict(fit, cars[1:4, ], se.fit = TRUE, interval = interval),
                 suppressWarnings(predict(truth, cars[1:4, ], se.fit = TRUE, interval = interval)))
  }
  expect_equal(predict(fit, cars, type = "terms"), predict(truth, cars, type = "terms"))
  expect_equal(fitted(fit), fitted(truth))
  expect_equal(residuals(fit), residuals(truth))
  expect_output(print(summary(fit)), "Residual standard error: 2.558 on 28 degrees of freedom")
  expect_output(print(fit), "Coefficients:\n\\(Intercept\\)")
  more <- update(fit, . ~ . + hp)
  whole <- update(truth, . ~ . + hp)
  expect_equal(as.data.frame(anova(fit, more)), as.data.frame(anova(truth, whole)))
  expect_equal(as.data.frame(add1(fit, ~ . + hp + qsec, test = "F")),
               as.data.frame(add1(truth, ~ . + hp + qsec, test = "F")))
  expect_equal(coef(step(more, trace = 0)), coef(step(whole, trace = 0)))
  read <- unserialize(serialize(fit, NULL))
  expect_equal(predict(read, cars), fitted(truth))
  expect_error(residuals(read), "residuals\\(\\) needs the rows, and a ring_lm holds none")
  expect_lt(length(serialize(fit, NULL)), 30000)
})

test_that("tidy, glance and augment have broom's columns", {
  skip_if_not_installed("generics")
  comm <- local_world()
  fit <- ring_lm(comm, mpg ~ wt, mtcars)
  tidied <- generics::tidy(fit, conf.int = TRUE)
  expect_named(tidied, c("term", "estimate", "std.error", "statistic", "p.value", "conf.low",
                         "conf.high"))
  expect_equal(tidied$conf.low, unname(confint(lm(mpg ~ wt, mtcars))[, 1]))
  expect_equal(generics::glance(fit)$r.squared, summary(lm(mpg ~ wt, mtcars))$r.squared)
  expect_equal(generics::augment(fit, mtcars)$.resid, unname(residuals(lm(mpg ~ wt, mtcars))))
})

test_that("an error of a linear model is one on all ranks", {
  results <- run_ring(2, {
    data <- dealt(mtcars, rank, size)
    data$text <- "a"
    data$wide <- if (rank == 1) Inf else 1
    text <- function(formula, ...) {
      further <- eval(substitute(alist(...)))
      call <- as.call(c(list(ring_lm, comm, formula, data = quote(data)), further))
      tryCatch(eval(call), error = conditionMessage)
    }
    list(text(mpg ~ wide), text(text ~ wt), text(mpg ~ wt, weights = wide - 2),
         text(mpg ~ wt, ridge = rank),
         tryCatch(ring_lm(comm, mpg ~ wt, if (rank == 1) stop("disk gone") else mtcars),
                  error = conditionMessage),
         tryCatch(ring_lm(comm, y ~ 0 + x, data.frame(y = 1e300, x = 1.5e308)),
                  error = conditionMessage), ring_allreduce(comm, 1))
  }, dealt = dealt)
  expect_match(results[[1]][[1]], "rank 1 .* failed: column wide has values that are not finite")
  expect_match(results[[1]][[2]], "the response must be one numeric vector")
  expect_match(results[[2]][[3]], "rank 0 .* failed: negative weights not allowed")
  expect_match(results[[2]][[4]], "rank 1 has another ridge than rank 0: 1, and not 0")
  expect_match(results[[1]][[5]], "rank 1 .* failed: disk gone")
  # Each rank has a finite triangle, and both together have none.
  expect_match(results[[2]][[6]], "rank 0 .* failed: column x has values that are not finite, or")
  expect_identical(results[[1]][[7]], 2)
})
