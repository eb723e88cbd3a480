# SPDX-License-Identifier: Apache-2.0

test_that("iris is learned as well on three ranks, of which one is empty, as on one", {
  results <- run_ring(3, {
    set.seed(1 + rank) # only that of rank 0 counts
    rows <- if (rank == 2) iris[0, ] else iris[seq_len(150) %% 2 == rank, ]
    ring_mlp(comm, Species ~ ., data = rows, hidden = 8)
  })
  comm <- local_world()
  set.seed(1)
  alone <- ring_mlp(comm, Species ~ ., data = iris, hidden = 8)
  fit <- results[[1]]
  expect_identical(fit$layers, c(4L, 8L, 3L))
  expect_identical(results[[2]]$weights, fit$weights)
  expect_identical(results[[3]]$weights, fit$weights)
  expect_gte(mean(predict(fit, iris) == iris$Species), 0.98)
  expect_equal(fit$loss, alone$loss, tolerance = 0.2)
  expect_equal(fit$moments, alone$moments)
  expect_equal(unname(rowSums(predict(fit, iris, "prob"))), rep(1, 150))
  expect_identical(levels(predict(fit, iris)), levels(iris$Species))
  expect_output(print(fit), "<ring_mlp> layers 4-8-3, classes setosa, versicolor, virginica, loss ")
  missing <- predict(fit, transform(iris[1:2, ], Sepal.Length = c(NA, 5)))
  expect_identical(is.na(missing), c(TRUE, FALSE))
})

test_that("the gradient is that of the loss", {
  set.seed(3)
  layers <- c(4L, 3L, 2L, 3L)
  par <- mlp_draw(layers) + 0.1
  truth <- outer(c(1, 2, 3, 1, 2), 1:3, `==`)
  loss <- mlp_loss(matrix(rnorm(20), 5), truth, layers, decay = 0.1, count = 5, size = 1)
  slope <- vapply(seq_along(par), FUN.VALUE = 1, function(i) {
    step <- replace(double(length(par)), i, 1e-6)
    (loss$value(par + step) - loss$value(par - step)) / 2e-6
  })
  expect_equal(loss$gradient(par), slope, tolerance = 1e-7)
})

test_that("numbers are learned, too", {
  results <- run_ring(3, {
    set.seed(2)
    data <- one_empty(mtcars, rank, size)
    text <- function(...) {
      tryCatch(ring_mlp(comm, mpg ~ wt + hp, data, ...), error = conditionMessage)
    }
    list(ring_mlp(comm, mpg ~ wt + hp, data, hidden = 3, max_iter = 500),
         text(scale = rank == 0), text(decay = rank), text(hidden = 1 - rank))
  }, one_empty = one_empty)
  fit <- results[[1]][[1]]
  expect_identical(results[[2]][[1]]$weights, fit$weights)
  expect_match(results[[1]][[2]], "rank 1 has another scale than rank 0: FALSE, and not TRUE")
  expect_match(results[[1]][[3]], "rank 1 has another decay than rank 0")
  expect_match(results[[1]][[4]], "rank 1 .* failed: `hidden` must be whole numbers, 1 or more")
  error <- mean((predict(fit, mtcars) - mtcars$mpg)^2)
  expect_equal(error, 2 * fit$loss * var(mtcars$mpg), tolerance = 1e-8)
  expect_lt(error, mean(residuals(lm(mpg ~ wt + hp, mtcars))^2))
  expect_identical(is.na(predict(fit, data.frame(wt = c(NA, 3), hp = 100))), c(TRUE, FALSE))
  output <- utils::capture.output(print(summary(fit)))
  expect_match(output, "^ +2 +3 +1 +linear +4$", all = FALSE)
  expect_match(output, "^Rows: 32, parameters: 13$", all = FALSE)
  skip_if_not_installed("generics")
  weights <- generics::tidy(structure(fit, class = "ring_mlp"))
  expect_identical(weights$estimate[weights$layer == 2], as.vector(fit$weights[[2]]))
  expect_identical(weights$input[weights$layer == 2], c(1:3, 0L))
  expect_identical(generics::glance(fit)$parameters, 13L)
  expect_identical(generics::augment(fit, mtcars)$.fitted, predict(fit, mtcars))
  comm <- local_world()
  linear <- ring_mlp(comm, mpg ~ wt + hp, mtcars, hidden = integer(), tol = 1e-14, max_iter = 1000)
  expect_equal(predict(linear, mtcars), unname(fitted(lm(mpg ~ wt + hp, mtcars))),
               tolerance = 1e-5)
})

test_that("without hidden layers it is multinomial regression", {
  comm <- local_world()
  data <- transform(mtcars, am = c("automatic", "manual")[am + 1])
  fit <- ring_mlp(comm, am ~ wt, data = data, hidden = integer(), tol = 1e-12, max_iter = 1000)
  truth <- glm(am ~ wt, family = binomial(), data = mtcars)
  expect_equal(unname(predict(fit, data, "prob")[, "manual"]), unname(fitted(truth)),
               tolerance = 1e-4)
  expect_true(fit$converged)
})

test_that("arguments that make no sense are named", {
  comm <- local_world()
  expect_error(ring_mlp(comm, am == 1 ~ wt, data = mtcars), "numbers, or a factor or strings with",
               class = "ring_error_invalid")
  expect_error(ring_mlp(comm, Species ~ ., data = iris, hidden = 1.5), "`hidden` must be whole num",
               class = "ring_error_invalid")
})
