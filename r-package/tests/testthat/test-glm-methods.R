# SPDX-License-Identifier: Apache-2.0

# nolint start: object_usage_linter. Columns of the data.
fits_of <- function(comm) {
  list(
    binomial = list(ring_glm(comm, case ~ age + parity + factor(spontaneous), binomial, infert),
                    glm(case ~ age + parity + factor(spontaneous), binomial, infert), infert),
    poisson = list(ring_glm(comm, carb ~ wt + hp + offset(log(cyl)), poisson, mtcars),
                   glm(carb ~ wt + hp + offset(log(cyl)), poisson, mtcars)),
    gaussian = list(ring_glm(comm, mpg ~ wt + factor(cyl) * hp, data = mtcars, weights = qsec),
                    glm(mpg ~ wt + factor(cyl) * hp, data = mtcars, weights = qsec)),
    gamma = list(ring_glm(comm, mpg ~ wt + factor(cyl), Gamma("log"), mtcars),
                 glm(mpg ~ wt + factor(cyl), Gamma("log"), mtcars))
  )
}
# nolint end

test_that("summaries, rows and terms are those of glm()", {
  comm <- local_world()
  for (pair in suppressWarnings(fits_of(comm))) {
    fit <- pair[[1]]
    truth <- pair[[2]]
    found <- summary(fit)
    expected <- summary(truth)
    for (field in c("coefficients", "cov.scaled", "cov.unscaled", "dispersion", "df", "aliased",
                    "aic", "df.residual")) {
      expect_equal(found[[field]], expected[[field]], tolerance = 1e-8)
    }
    expect_equal(summary(fit, dispersion = 2)$cov.scaled, summary(truth, dispersion = 2)$cov.scaled,
                 tolerance = 1e-8)
    output <- utils::capture.output(print(found))
    # The call, and the quantiles of residuals that only some versions print, differ.
    expected <- utils::capture.output(print(expected))
    expect_identical(tail(output, 10), tail(expected, 10))
    for (type in c("deviance", "pearson", "working", "response")) {
      expect_equal(residuals(fit, type), residuals(truth, type), tolerance = 1e-8)
    }
    expect_equal(fitted(fit), fitted(truth), tolerance = 1e-8)
    expect_equal(weights(fit), truth$prior.weights, tolerance = 1e-8, ignore_attr = TRUE)
    expect_equal(weights(fit, "working"), weights(truth, "working"), tolerance = 1e-8,
                 ignore_attr = TRUE)
    data <- if (length(pair) > 2) pair[[3]] else mtcars
    expect_equal(predict(fit, data, "terms"), predict(truth, data, "terms"), tolerance = 1e-8)
    expect_equal(extractAIC(fit), extractAIC(truth), tolerance = 1e-10)
  }
})

test_that("tests of terms are those of glm()", {
  comm <- local_world()
  same <- function(found, expected) {
    expect_equal(as.data.frame(found), as.data.frame(expected), tolerance = 1e-7)
    expect_identical(attr(found, "heading"), attr(expected, "heading"))
  }
  for (pair in suppressWarnings(fits_of(comm))) {
    fit <- pair[[1]]
    truth <- pair[[2]]
    more <- if (length(pair) > 2) ~ . + induced else ~ . + drat
    for (test in list("Chisq", "F", NULL)) {
      if (identical(test, "F") && fit$dispersion == 1) next
      suppressWarnings(same(anova(fit, test = test), anova(truth, test = test)))
      test <- if (is.null(test)) "none" else test
      suppressWarnings(same(drop1(fit, test = test), drop1(truth, test = test)))
      suppressWarnings(same(add1(fit, more, test = test), add1(truth, more, test = test)))
    }
    first <- attr(terms(truth), "term.labels")[[1]]
    less <- suppressWarnings(update(fit, stats::reformulate(first, ".")))
    small <- suppressWarnings(update(truth, stats::reformulate(first, ".")))
    expect_equal(as.data.frame(anova(less, fit, test = "Chisq")),
                 as.data.frame(anova(small, truth, test = "Chisq")), tolerance = 1e-7)
  }
  fit <- ring_glm(comm, carb ~ wt + hp + qsec, poisson, mtcars)
  truth <- glm(carb ~ wt + hp + qsec, poisson, mtcars)
  expect_equal(coef(step(fit, trace = 0)), coef(step(truth, trace = 0)), tolerance = 1e-8)
  expect_error(drop1(fit, ~ drat), "scope is not a subset of term labels: drat")
  expect_error(add1(fit, ~ .), "no terms in scope")
  expect_error(drop1(fit, test = "Rao"), "`test` must be")
})

# nolint start: object_usage_linter. Columns of the data.
test_that("terms with missing values are dropped and added on the rows of the fit", {
  holes <- transform(rbind(mtcars, mtcars * 1.05), g = factor(rep(c("a", "b"), 32)),
                     vs = rep(mtcars$vs, 2), weight = rep(c(0.5, 1, 2, 0), 16))
  holes$drat[c(3, 40)] <- NA
  holes$g[5] <- NA
  holes$qsec[c(1, 60)] <- NA
  tables <- function(fit, more, test) {
    raised <- character()
    found <- withCallingHandlers(
      list(drop1(fit, test = test), add1(fit, more, test = test)),
      warning = function(warning) {
        raised <<- c(raised, conditionMessage(warning))
        invokeRestart("muffleWarning")
      }
    )
    c(lapply(found, as.data.frame), list(grep("combined", raised, value = TRUE)))
  }
  calls <- list(
    list(quote(ring_glm(comm, vs ~ drat * g + hp, binomial, data, weights = weight, offset = -wt)),
         quote(glm(vs ~ drat * g + hp, binomial, holes, weights = weight, offset = -wt)),
         ~ . + qsec + hp:drat, "LRT"),
    list(quote(ring_glm(comm, mpg ~ drat + g + wt, data = data)),
         quote(glm(mpg ~ drat + g + wt, data = holes)), ~ . + poly(disp, 2) + qsec, "F"),
    list(quote(ring_glm(comm, carb ~ drat - 1, poisson, ring_chunks(list(data, data[0, ], data)))),
         quote(glm(carb ~ drat - 1, poisson, rbind(holes, holes))), ~ . + qsec, "none"),
    list(quote(ring_lm(comm, mpg ~ drat * g, data)), quote(lm(mpg ~ drat * g, holes)),
         ~ . + qsec + g:wt, "F")
  )
  results <- run_ring(3, { # rank 1 has no rows
    data <- one_empty(holes, rank, size)
    found <- lapply(calls, function(call) {
      suppressWarnings(fit <- eval(call[[1]])) # of odd numbers of successes
      tables(fit, call[[3]], call[[4]])
    })
    data <- data[-1, ]
    fit <- ring_glm(comm, mpg ~ wt, data = data)
    data <- data[-1, ]
    list(found, tryCatch(drop1(fit), error = conditionMessage))
  }, holes = holes, one_empty = one_empty, calls = calls, tables = tables)
  for (i in seq_along(calls)) {
    expected <- tables(suppressWarnings(eval(calls[[i]][[2]])), calls[[i]][[3]], calls[[i]][[4]])
    expect_equal(results[[1]][[1]][[i]], expected, tolerance = 1e-8, info = i)
    expect_identical(results[[2]][[1]][[i]], results[[1]][[1]][[i]], info = i)
  }
  expect_match(results[[2]][[2]], "needs the rows of the fit, which had 62 on all ranks, and there")
  comm <- local_world()
  fit <- ring_glm(comm, breaks ~ wool * tension, poisson, warpbreaks)
  truth <- glm(breaks ~ wool * tension, poisson, warpbreaks)
  expect_equal(drop1(fit, "wool")$Deviance, drop1(truth, "wool")$Deviance, tolerance = 1e-8)
  fit <- ring_glm(comm, mpg ~ hp + drat + wt + disp, data = holes)
  truth <- glm(mpg ~ hp + drat + wt + disp, data = holes)
  expect_equal(coef(step(fit, trace = 0)), coef(step(truth, trace = 0)), tolerance = 1e-8)
})
# nolint end

test_that("profile intervals are those of confint() of glm(), on ranks with a part of the rows", {
  results <- run_ring(2, {
    data <- dealt(infert, rank, size)
    fit <- ring_glm(comm, case ~ age + parity + spontaneous, binomial, data)
    list(confint(fit), anova(fit, test = "Chisq"), drop1(fit)$AIC, residuals(fit),
         confint(fit, "parity", level = 0.9))
  }, dealt = dealt)
  truth <- glm(case ~ age + parity + spontaneous, binomial, infert)
  expect_equal(results[[1]][[2]]$Deviance, anova(truth)$Deviance, tolerance = 1e-8)
  expect_equal(results[[1]][[3]], drop1(truth)$AIC, tolerance = 1e-8)
  expect_equal(results[[1]][[4]], residuals(truth)[c(FALSE, TRUE)], tolerance = 1e-8)
  # The deviance at each limit is that of the test.
  for (limit in results[[1]][[1]]["parity", ]) {
    at <- glm(case ~ age + spontaneous + offset(limit * parity), binomial, infert)
    expect_equal(at$deviance - truth$deviance, qchisq(0.95, 1), tolerance = 1e-3)
  }
  skip_if_not(getRversion() >= "4.4" || requireNamespace("MASS", quietly = TRUE))
  expect_equal(results[[1]][[1]], suppressMessages(confint(truth)), tolerance = 1e-8)
  expect_equal(results[[2]][[5]], suppressMessages(confint(truth, "parity", level = 0.9)),
               tolerance = 1e-8)
})

test_that("a plot has a sample of the rows of all ranks", {
  results <- run_ring(2, {
    grDevices::pdf(NULL)
    data <- one_empty(mtcars, rank, size)
    list(plot(ring_glm(comm, am ~ wt, binomial, data), size = 10),
         plot(ring_lm(comm, mpg ~ wt, data)))
  }, one_empty = one_empty)
  expect_identical(nrow(results[[1]][[1]]), 10L)
  expect_equal(sort(results[[2]][[2]]$.resid), sort(unname(residuals(lm(mpg ~ wt, mtcars)))))
})

test_that("robust covariances are those of sandwich", {
  skip_if_not_installed("sandwich")
  comm <- local_world()
  pairs <- suppressWarnings(fits_of(comm))
  pairs$linear <- list(ring_lm(comm, mpg ~ wt + hp, mtcars, weights = qsec),
                       lm(mpg ~ wt + hp, mtcars, weights = qsec))
  for (pair in pairs) {
    for (type in c("HC3", "const", "HC0", "HC1", "HC2", "HC4")) {
      expect_equal(sandwich::vcovHC(pair[[1]], type), sandwich::vcovHC(pair[[2]], type),
                   tolerance = 1e-8, info = type)
    }
  }
  shared <- run_ring(2, {
    sandwich::vcovHC(ring_lm(comm, mpg ~ wt + hp, dealt(mtcars, rank, size)))
  }, dealt = dealt)
  expect_equal(shared[[2]], sandwich::vcovHC(lm(mpg ~ wt + hp, mtcars)), tolerance = 1e-10)
})

test_that("tidy, glance and augment have broom's columns", {
  skip_if_not_installed("generics")
  comm <- local_world()
  fit <- ring_glm(comm, am ~ wt, binomial, mtcars)
  tidied <- generics::tidy(fit, conf.int = TRUE, exponentiate = TRUE)
  expect_equal(tidied$estimate, unname(exp(coef(fit))))
  expect_true(all(tidied$conf.low < tidied$estimate & tidied$estimate < tidied$conf.high))
  expect_identical(generics::glance(fit)$nobs, 32L)
  expect_equal(generics::augment(fit, mtcars, type = "response")$.fitted, unname(fitted(fit)))
})
