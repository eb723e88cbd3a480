# SPDX-License-Identifier: Apache-2.0

degree <- 2
formulas <- list(
  local({
    d <- 3
    mpg ~ poly(wt, d)
  }),
  mpg ~ poly(hp, degree, simple = TRUE),
  mpg ~ poly(wt, 3) + scale(hp), mpg ~ poly(disp, degree = 2) * am, mpg ~ splines::ns(wt, df = 4),
  mpg ~ splines::ns(wt, 3, intercept = TRUE) - 1, mpg ~ splines::bs(hp, df = 5),
  mpg ~ splines::bs(hp, df = 4, degree = 2), mpg ~ splines::bs(wt), mpg ~ cut(hp, 3),
  mpg ~ cut(wt, 4, labels = FALSE), mpg ~ scale(cbind(wt, hp)), mpg ~ scale(wt, scale = FALSE),
  mpg ~ splines::ns(wt, df = 2, Boundary.knots = c(2, 4)), mpg ~ poly(wt, 2, raw = TRUE),
  mpg ~ cut(hp, c(0, 100, 400)), mpg ~ splines::ns(wt, knots = 3, Boundary.knots = c(1, 6))
)

test_that("terms that need all rows have the columns of all rows", {
  results <- run_ring(3, {
    data <- one_empty(mtcars, rank, size)
    lapply(formulas, function(formula) ring_lm(comm, formula, data))
  }, formulas = formulas, degree = degree, one_empty = one_empty)
  new <- mtcars[5:9, ]
  for (i in seq_along(formulas)) {
    fit <- results[[1]][[i]]
    truth <- lm(formulas[[i]], mtcars)
    expect_equal(coef(fit), coef(truth), tolerance = 1e-9, info = deparse(formulas[[i]]))
    # predict() of lm() itself forgets the breaks of cut().
    expect_equal(predict(fit, new), fitted(truth)[5:9], tolerance = 1e-10,
                 info = deparse(formulas[[i]]))
  }
})

test_that("such terms work in all models, and in a process with nothing else", {
  comm <- local_world()
  library(splines)
  on.exit(detach("package:splines"), add = TRUE)
  fit <- ring_glm(comm, am ~ ns(hp, 2) + scale(qsec), binomial, mtcars)
  truth <- glm(am ~ ns(hp, 2) + scale(qsec), binomial, mtcars)
  expect_equal(coef(fit), coef(truth), tolerance = 1e-8)
  mlp <- ring_mlp(comm, factor(am) ~ poly(hp, 2), mtcars, hidden = 2, max_iter = 5)
  sent <- serialize(list(fit, mlp), NULL)
  results <- run_ranks(2, {
    models <- unserialize(sent)
    list(predict(models[[1]], mtcars), predict(models[[2]], mtcars))
  }, sent = sent)
  expect_equal(results[[1]][[1]], predict(truth, mtcars), tolerance = 1e-8)
  expect_identical(results[[2]][[2]], predict(mlp, mtcars))
  expect_equal(coef(update(fit, . ~ . - scale(qsec))), coef(glm(am ~ ns(hp, 2), binomial, mtcars)),
               tolerance = 1e-8)
})

test_that("what cannot be reduced is an error", {
  results <- run_ring(2, {
    data <- transform(dealt(mtcars, rank, size), text = "a")
    if (rank == 1) data$wt[[1]] <- NA
    text <- function(formula) {
      tryCatch(ring_lm(comm, formula, data), error = conditionMessage)
    }
    list(text(mpg ~ poly(wt, 2)), text(mpg ~ I(scale(hp)^2)), text(mpg ~ scale(text)),
         text(if (rank == 0) mpg ~ scale(hp) else mpg ~ scale(disp)), text(mpg ~ poly(hp, disp)),
         text(mpg ~ splines::ns(wt, knots = quantile(wt, 0.3))), text(mpg ~ scale(hp, 1 + rank)),
         text(mpg ~ splines::bs(hp, df = if (rank == 1) stop("none") else 5)),
         text(mpg ~ poly(hp, 1 + rank)), ring_allreduce(comm, 1))
  }, dealt = dealt)
  expect_match(results[[1]][[1]], "rank 1 .*missing values are not allowed in 'poly'")
  expect_match(results[[1]][[2]], "I\\(scale\\(hp\\)\\^2\\) depends on all rows")
  expect_match(results[[1]][[3]], "`x` in scale\\(text\\) must be numbers")
  expect_match(results[[1]][[4]], "ranks 0 and 1 have different terms")
  expect_match(results[[1]][[5]], "poly\\(hp, disp\\) depends on all rows")
  expect_match(results[[1]][[6]], "quantile\\(wt, 0.3\\) in .* depends on all rows")
  expect_match(results[[1]][[7]], "`center` of .* is 2 on rank 1 and 1 on rank 0: it must be the")
  expect_match(results[[1]][[8]], "rank 1 .* failed: none")
  expect_match(results[[2]][[9]], "`degree` of .* is 2 on rank 1 and 1 on rank 0")
  expect_identical(results[[2]][[10]], 2)
})
