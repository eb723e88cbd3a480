# SPDX-License-Identifier: Apache-2.0

set.seed(3)
design <- matrix(rnorm(300 * 12), 300) %*% (diag(12) + 0.4)
colnames(design) <- letters[1:12]
signal <- drop(design[, 1:4] %*% c(1, -1, 0.5, 0.25))
responses <- list(
  gaussian = 3 + signal + rnorm(300), binomial = rbinom(300, 1, plogis(signal)),
  poisson = rpois(300, exp(signal / 3)),
  multinomial = factor(c("x", "y", "z")[1 + (signal > 1) + (signal + rnorm(300) > 2)])
)

# The largest violation of the optimality conditions, by the formulas and from the rows.
kkt <- function(fit, x, y, alpha, weights = rep(1, nrow(x))) {
  total <- sum(weights)
  weights <- weights / total
  center <- colSums(weights * x)
  scale <- sqrt(colSums(weights * sweep(x, 2, center)^2))
  standard <- sweep(sweep(x, 2, center), 2, scale, `/`)
  truth <- if (is.factor(y)) outer(as.character(y), levels(y), `==`) else as.matrix(y)
  worst <- vapply(seq_along(fit$lambda), function(step) {
    mean <- predict(fit, x, fit$lambda[[step]], "response")
    gradient <- crossprod(standard, weights * (truth - matrix(mean, nrow(x))))
    b <- matrix(fit$slopes[, , step], ncol(x)) * scale
    lambda <- fit$lambda[[step]]
    spread <- if (is.factor(y) || fit$family != "gaussian") 1 else sqrt(fit$nulldev / total)
    slope <- gradient - lambda * (1 - alpha) * b / spread
    max(ifelse(b == 0, pmax(0, abs(slope) - lambda * alpha), abs(slope - lambda * alpha * sign(b))),
        abs(colSums(weights * (truth - matrix(mean, nrow(x))))))
  }, 1)
  max(worst)
}

test_that("paths satisfy the optimality conditions", {
  weights <- rep(1:3, 100)
  for (family in names(responses)) { # A run of ranks is short enough for a loaded machine.
    y <- responses[[family]]
    results <- run_ring(3, {
      x <- one_empty(design, rank, size)
      rows <- seq_len(300) %% 2 == rank %/% 2 & rank != 1
      list(ring_glmnet(comm, x, y[rows], family, nlambda = 30),
           ring_glmnet(comm, x, y[rows], family, alpha = 0.4, nlambda = 20,
                       weights = weights[rows]))
    }, design = design, y = y, family = family, one_empty = one_empty, weights = weights)
    fits <- results[[1]]
    expect_lt(kkt(fits[[1]], design, y, 1), 1e-7)
    expect_lt(kkt(fits[[2]], design, y, 0.4, weights), 1e-7)
    expect_identical(fits[[1]]$df[[1]], 0L)
    expect_gt(fits[[1]]$df[[20]], 3L)
    expect_identical(results[[2]][[1]]$slopes, fits[[1]]$slopes)
  }
})

test_that("paths are those of glmnet()", {
  skip_if_not_installed("glmnet")
  comm <- local_world()
  for (family in names(responses)) {
    y <- responses[[family]]
    truth <- glmnet::glmnet(design, y, family, thresh = 1e-18, maxit = 1e7)
    fit <- ring_glmnet(comm, design, y, family, lambda = truth$lambda)
    auto <- ring_glmnet(comm, design, y, family)
    expect_equal(auto$lambda[1:10], truth$lambda[1:10], tolerance = 1e-10, info = family)
    expect_equal(fit$dev.ratio, truth$dev.ratio, tolerance = 1e-7, info = family)
    expect_equal(fit$nulldev, truth$nulldev, tolerance = 1e-7, info = family)
    expect_equal(unname(predict(fit, design, c(0.1, 0.01), "response")),
                 unname(as.array(predict(truth, design, c(0.1, 0.01), "response"))),
                 tolerance = 1e-6, ignore_attr = TRUE, info = family)
  }
  truth <- glmnet::glmnet(design, responses$gaussian, thresh = 1e-18, alpha = 0.5,
                          penalty.factor = c(0, rep(1, 11)))
  fit <- ring_glmnet(comm, design, responses$gaussian, alpha = 0.5, lambda = truth$lambda,
                     penalty.factor = c(0, rep(1, 11)))
  expect_equal(unname(coef(fit)), unname(as.matrix(coef(truth))), tolerance = 1e-7)
  expect_equal(c(fit$nulldev, fit$dev.ratio), c(truth$nulldev, truth$dev.ratio), tolerance = 1e-7)
  square <- ring_glmnet(comm, design[1:12, ], responses$gaussian[1:12])
  expect_equal(square$lambda[[2]] / square$lambda[[1]], 1e-4^(1 / 99)) # as many rows as columns
  expect_error(ring_glmnet(comm, design, responses$gaussian, intercept = 1),
               "`intercept` must be TRUE or FALSE")
})

test_that("constant columns and those of an infinite penalty factor are left out", {
  for (family in names(responses)) {
    y <- responses[[family]]
    results <- run_ring(3, {
      rows <- seq_len(300) %% 2 == rank %/% 2 & rank != 1
      x <- design[rows, 1:3]
      path <- function(x, ...) {
        ring_glmnet(comm, x, y[rows], family, lambda = c(0.1, 0.01), intercept = FALSE, ...)$slopes
      }
      wide <- cbind(x[, 1], if (rank == 1) double() else 0.1, x[, 2:3]) # the mean of 0.1 is rounded
      list(path(x), path(wide), path(wide, penalty.factor = c(1, 0, 1, Inf)), path(x[, 1:2]))
    }, design = design, y = y, family = family)[[1]]
    expect_equal(results[[2]][-2, , , drop = FALSE], results[[1]], tolerance = 1e-6, info = family)
    expect_identical(range(results[[2]][2, , ]), c(0, 0), info = family)
    expect_gt(max(abs(results[[4]][, , 2])), 0)
    if (!requireNamespace("glmnet", quietly = TRUE)) next
    truth <- glmnet::glmnet(cbind(design[, 1], 0.1, design[, 2:3]), y, family, thresh = 1e-18,
                            lambda = c(0.1, 0.01), intercept = FALSE,
                            penalty.factor = c(1, 0, 1, Inf))
    parts <- if (is.list(truth$beta)) truth$beta else list(truth$beta)
    expect_equal(as.double(aperm(results[[3]], c(1, 3, 2))),
                 as.double(unlist(lapply(parts, as.matrix))), tolerance = 1e-5, info = family)
  }
  comm <- local_world()
  expect_error(ring_glmnet(comm, design * 0, y = responses$gaussian), "each column of `x` is const")
  expect_error(ring_glmnet(comm, design, rep(3, 300)), "`y` is constant: there is no path")
  expect_error(ring_glmnet(comm, design, rep(0, 300), "poisson"), "`y` is constant")
  expect_error(ring_glmnet(comm, design, rep(1:0, c(1, 299)), "binomial", nfolds = 2,
                           foldid = rep(1:2, c(1, 299))),
               "`y` is constant in the rows without fold 1")
})

test_that("a pass has the derivatives of the deviance", {
  for (family in names(responses)) {
    y <- responses[[family]]
    y <- if (is.factor(y)) outer(y, levels(y), `==`) + 0 else matrix(as.double(y))
    rows <- list(
      family = family, x = design, y = y, weights = rep(c(0, 1, 2.5), 100) / 350,
      offset = rep(c(0, 0.5, -0.5, 0.25), 75), intercept = TRUE, center = colMeans(design),
      scale = apply(design, 2, sd)
    )
    if (family == "poisson") rows$offset[[1]] <- 1e4 # its weight is 0
    active <- which(seq_len(13 * ncol(y)) %% 3 != 0)
    pass <- function(b, whole) .Call(C_elastic_net_pass, rows, b, active, whole)
    b <- sin(active) / 5
    known <- seq_along(active)
    found <- pass(b, FALSE)
    # The column `of` of the derivatives of the first numbers of a pass.
    slope <- function(of) {
      step <- replace(double(length(b)), of, 1e-5)
      (pass(b + step, FALSE) - pass(b - step, FALSE))[c(1, known + 1)] / 2e-5
    }
    slopes <- vapply(known, slope, double(length(b) + 1))
    expect_equal(found[known + 1], -slopes[1, ] / 2, tolerance = 1e-6, info = family)
    curvature <- matrix(found[-(1:(length(b) + 1))], length(b))
    expect_equal(curvature, -slopes[-1, ], tolerance = 1e-6, info = family)
    whole <- pass(b, TRUE)
    expect_identical(whole[active + 1], found[known + 1], info = family)
    expect_identical(whole[1], found[1])
    none <- lapply(rows, function(x) if (is.matrix(x)) x[0, , drop = FALSE] else x)
    none[c("weights", "offset")] <- list(double())
    expect_identical(.Call(C_elastic_net_pass, none, b, active, FALSE), double(length(found)))
  }
  expect_error(.Call(C_elastic_net_pass, rows, b, rev(active), TRUE), "must be increasing")
  expect_error(.Call(C_elastic_net_pass, rows, 1, 40L, TRUE), "there is none of number 40")
  expect_error(.Call(C_elastic_net_pass, rows["family"], b, active, TRUE), "has no element x")
  rows$offset <- 1L
  expect_error(.Call(C_elastic_net_pass, rows, b, active, TRUE),
               "offset must be of type double and length 300")
})

test_that("cross-validation is that of cv.glmnet()", {
  folds <- rep_len(1:5, 300)
  comm <- local_world()
  for (family in names(responses)) {
    y <- responses[[family]]
    fit <- ring_glmnet(comm, design, y, family, nfolds = 5, foldid = folds, nlambda = 20,
                       lambda.min.ratio = 0.02)
    expect_lte(fit$lambda.min, fit$lambda.1se)
    expect_length(fit$cvm, length(fit$lambda))
    if (!requireNamespace("glmnet", quietly = TRUE)) next
    truth <- glmnet::cv.glmnet(design, y, family = family, foldid = folds, lambda = fit$lambda,
                               thresh = 1e-16)
    expect_equal(fit$cvm, unname(truth$cvm), tolerance = 1e-6, info = family)
    expect_equal(fit$cvsd, unname(truth$cvsd), tolerance = 1e-6, info = family)
    expect_equal(c(fit$lambda.min, fit$lambda.1se), c(truth$lambda.min, truth$lambda.1se),
                 info = family)
  }
})

test_that("folds are of equal sizes, and an argument of one rank is an error of all", {
  results <- run_ring(3, {
    rows <- 6 * rank + 1:6
    x <- as.matrix(mtcars[rows, 3:4])
    text <- function(...) tryCatch(ring_glmnet(comm, x, rows, ...), error = conditionMessage)
    fit <- ring_glmnet(comm, x, mtcars$mpg[rows], nfolds = 9, nlambda = 5)
    list(fit$cvm, text(family = if (rank == 1) "normal" else "gaussian"),
         text(nfolds = 5, foldid = rep(1:2, 3)), text(nfolds = 19), text(thresh = -rank),
         ring_allreduce(comm, 1))
  })
  found <- results[[1]]
  expect_true(all(is.finite(found[[1]])))
  expect_identical(results[[3]][[1]], found[[1]])
  expect_match(found[[2]], "rank 1 .* failed: `.*` must be one of")
  expect_match(found[[3]], "fold 3 has no rows with a weight on any rank: lower `nfolds`")
  expect_match(found[[4]], "fold 1 has no rows")
  expect_match(found[[5]], "`thresh` must be a positive number")
  expect_identical(found[[6]], 3)
})

test_that("a path has methods and errors", {
  comm <- local_world()
  fit <- ring_glmnet(comm, mtcars[-1], mtcars$mpg, nfolds = 4)
  expect_output(print(fit), "Df +%Dev +Lambda.*Cross-validation: lambda.min")
  expect_identical(rownames(coef(fit, "lambda.min")), c("(Intercept)", names(mtcars)[-1]))
  expect_equal(dim(predict(fit, mtcars[1:3, -1], s = c(1, 0.5))), c(3, 2))
  # Without a penalty it is least squares.
  least <- ring_glmnet(comm, mtcars[-1], mtcars$mpg, lambda = 0)
  expect_equal(drop(coef(least)), coef(lm(mpg ~ ., mtcars)), tolerance = 1e-6)
  classes <- ring_glmnet(comm, iris[1:4], iris$Species, "multinomial")
  expect_gt(mean(predict(classes, iris[1:4], 0.001, "class") == iris$Species), 0.96)
  grDevices::pdf(NULL)
  expect_silent(plot(fit))
  grDevices::dev.off()
  expect_error(ring_glmnet(comm, mtcars[-1], 1:3), "`x` has 32 rows and `y` has 3")
  expect_error(ring_glmnet(comm, mtcars[-1], mtcars$mpg, alpha = 2), "`alpha` must be a number")
  expect_error(ring_glmnet(comm, iris[1:4], iris$Species, "binomial"), "`y` has 3 classes")
  expect_error(coef(classes, "lambda.min"), "there was no cross-validation")
  moved <- ring_glmnet(comm, mtcars[3:4], mtcars$mpg, offset = mtcars$wt, lambda = 0.1)
  expect_error(predict(moved, mtcars[3:4]), "fitted with an offset: pass `offset`")
  expect_error(predict(moved, mtcars[3:4], offset = 1:7), "`offset` must be a number, or one for")
  doubled <- unname(as.matrix(mtcars[c(3, 3)])) # names that are not unique do not choose columns
  colnames(doubled) <- c("a", "a")
  twice <- ring_glmnet(comm, doubled * rep(c(1, 2), each = 32), mtcars$mpg, lambda = 0.1)
  other <- predict(twice, cbind(a = 0, a = c(1, 2)))
  expect_equal(other[[2]] - other[[1]], coef(twice)[[3]])
  skip_if_not_installed("generics")
  expect_named(generics::tidy(fit), c("term", "step", "estimate", "lambda", "dev.ratio"))
  expect_identical(generics::glance(fit)$nobs, 32L)
  added <- generics::augment(fit, mtcars, s = "lambda.min")
  expect_equal(added$.fitted, unname(predict(fit, mtcars, "lambda.min")[, 1]))
  expect_error(generics::augment(fit, mtcars), "pass one penalty as `s`")
})
