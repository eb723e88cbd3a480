# SPDX-License-Identifier: Apache-2.0

found_to_move <- function(formula, data = mtcars, ...) {
  terms <- attr(model.frame(formula, data), "terms")
  source_moving(source_of(terms, data, list(...)))
}

test_that("what depends on all rows is found", {
  bins <- function(x) cut(x, quantile(x, 0:4 / 4), include.lowest = TRUE)
  ties <- data.frame(y = 1:40, x = rep(c(0, 1), c(15, 25)), z = rep(1:4, 10))
  for (formula in list(
    mpg ~ I(wt - mean(wt)), mpg ~ cut(wt, 3), mpg ~ cut(cyl, 2), mpg ~ rank(wt), mpg ~ bins(wt),
    mpg ~ I(wt / max(wt)), mpg ~ I(am - median(am)), mpg ~ as.integer(factor(cyl)), mpg ~ rev(wt),
    mpg ~ cumsum(wt), mpg ~ seq_along(wt), mpg ~ ave(wt, cyl), mpg ~ I((wt - mean(wt)) / sd(wt)),
    I(mpg - min(mpg)) ~ wt, mpg ~ I(wt > quantile(wt, 0.9)), mpg ~ c(NA, diff(wt))
  )) {
    expect_type(found_to_move(formula), "character")
  }
  expect_type(found_to_move(y ~ I(x - median(x)), ties), "character")
  expect_identical(found_to_move(mpg ~ wt, weights = quote(hp / mean(hp))), "hp/mean(hp)")
  expect_identical(found_to_move(mpg ~ wt, subset = quote(hp > mean(hp))), "hp > mean(hp)")
  wt <- mtcars$wt
  expect_identical(found_to_move(mtcars$mpg ~ I(wt - mean(wt)), NULL), "I(wt - mean(wt))")
  large <- data.frame(y = 1:20000, x = sin(1:20000))
  expect_identical(found_to_move(y ~ scale(x), large), "scale(x)")
})

test_that("what does not is left alone, and the random generator as it was", {
  data <- transform(mtcars, day = as.Date("2020-01-01") + hp, name = rownames(mtcars))
  data$wt[c(3, 9)] <- NA
  data$pair <- cbind(data$am, data$hp)
  steps <- c(0, 2, 3, 9)
  one <- function(x) if (x > 150) "fast" else "slow"
  set.seed(1)
  for (formula in list(
    mpg ~ log(wt) + I(wt^2), mpg ~ cut(wt, steps), mpg ~ factor(cyl), mpg ~ relevel(factor(cyl), 1),
    mpg ~ factor(cyl, ordered = TRUE), mpg ~ ifelse(hp > 150, wt, 0), mpg ~ months(day),
    mpg ~ vapply(hp, one, ""), mpg ~ substr(name, 1, 3), mpg ~ pmax(wt, hp), cbind(am, 1 - am) ~ wt,
    mpg ~ pair + I(rowSums(pair)), mpg ~ offset(log(hp)), mpg ~ poly(hp, 2, raw = TRUE),
    mpg ~ steps[gear - 2], mpg ~ I(wt + rnorm(32)), mpg ~ jitter(hp), mpg ~ nchar(name)
  )) {
    frame <- model.frame(formula, data)
    before <- .Random.seed
    source <- source_of(attr(frame, "terms"), data)
    expect_null(source_moving(source), info = deparse(formula))
    expect_identical(.Random.seed, before)
  }
  expect_null(found_to_move(mpg ~ wt, data, subset = 1:5, weights = quote(sqrt(hp))))
  expect_null(found_to_move(mpg ~ wt, data, subset = quote(seq_len(nrow(data)) %% 2 == 0)))
})

test_that("a term that needs rows of other ranks is named, on all ranks", {
  results <- run_ring(2, {
    data <- mtcars[mtcars$cyl == if (rank == 0) 4 else 8, ]
    text <- function(formula) {
      tryCatch(ring_glm(comm, formula, data = data), error = conditionMessage)
    }
    mlp <- tryCatch(ring_mlp(comm, factor(am) ~ rank(wt), data), error = conditionMessage)
    list(text(mpg ~ relevel(factor(cyl), "8")), text(mpg ~ I(wt - mean(wt))), mlp)
  })
  for (texts in results) {
    expect_match(texts[[1]], "relevel\\(factor\\(cyl\\), \"8\"\\) cannot be computed from")
    expect_match(texts[[1]], "make the column before the call, such as by factor")
    expect_match(texts[[2]], "I\\(wt - mean\\(wt\\)\\) depends on all rows, and each rank has")
    expect_match(texts[[3]], "rank\\(wt\\) depends on all rows")
  }
})
