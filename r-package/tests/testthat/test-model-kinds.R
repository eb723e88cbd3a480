# SPDX-License-Identifier: Apache-2.0

# An integer64 of package bit64, from whole numbers below 2^53.
as_integer64 <- function(x) {
  low <- x %% 2^32
  words <- rbind(ifelse(low >= 2^31, low - 2^32, low), floor(x / 2^32))
  bytes <- writeBin(as.integer(words), raw(), endian = "little")
  structure(readBin(bytes, "double", length(x), endian = "little"), class = "integer64")
}

test_that("variables whose numbers have other meanings on another rank are an error on all ranks", {
  results <- run_ring(3, {
    hour <- as.POSIXct("2024-03-01", tz = "UTC") + 1:12 * 3600
    data <- data.frame(y = c(3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8), e = 1, from = hour, to = hour + 9)
    if (rank == 2) data$to <- data$from + 900
    if (rank == 1) data <- data[0L, ]
    data$wait <- data$to - data$from
    data$day <- if (rank == 2) data$from else as.Date(data$from)
    zoned <- data
    attr(zoned$from, "tzone") <- if (rank == 2) "Asia/Tokyo" else "UTC"
    levels <- if (rank == 2) c("b", "a") else c("a", "b")
    data$f <- factor(rep(c("a", "b"), length.out = nrow(data)), levels)
    text <- function(expr) tryCatch(expr, error = conditionMessage)
    chunks <- ring_chunks(if (rank == 2) 1:2 else 1L, function(i) {
      data.frame(y = 1:3, x = as.difftime(1:3, units = if (i == 2) "days" else "secs"))
    })
    list(
      text(ring_lm(comm, y ~ wait, data)), text(ring_glm(comm, y ~ e, data = data, weights = wait)),
      text(ring_lm(comm, y ~ e, data, offset = wait)),
      text(ring_coxph(comm, Surv(wait, e) ~ y, data)),
      text(ring_lm(comm, y ~ as.numeric(to - from), data)), text(ring_lm(comm, y ~ day, data)),
      text(ring_lm(comm, y ~ months(from), zoned)), text(ring_lm(comm, y ~ as.integer(f), data)),
      text(ring_lm(comm, y ~ x, chunks)),
      coef(ring_lm(comm, y ~ difftime(to, from, units = "secs"), data)), ring_allreduce(comm, 1)
    )
  })
  texts <- c(
    "`wait` is a difftime in secs on rank 0 and a difftime in mins on rank 2: give it the same uni",
    "`(weights)` is a difftime in secs on rank 0 and", "`(offset)` is a difftime in secs on rank 0",
    "`wait` is a difftime in secs on rank 0 and", "`to - from` is a difftime in secs on rank 0",
    "`day` is of class Date on rank 0 and of class POSIXct in the time zone UTC on rank 2: convert",
    "`from` is of class POSIXct in the time zone UTC on rank 0 and of class POSIXct in the time zo",
    "`f` is a factor with the levels a, b on rank 0 and a factor with the levels b, a on rank 2",
    "`x` is a difftime in secs in chunk 1 and a difftime in days in chunk 2: give it the same units"
  )
  for (result in results) {
    for (i in seq_along(texts)) expect_match(result[[i]], texts[[i]], fixed = TRUE)
    expect_true(all(is.finite(result[[length(texts) + 1L]])))
    expect_identical(result[[length(texts) + 2L]], 3)
  }
})

test_that("a rank without rows takes the types of the variables from the other ranks", {
  formulas <- list(
    mpg ~ ifelse(hp > 150, wt, 0), mpg ~ sapply(hp, sqrt), mpg ~ relevel(factor(cyl), "8"),
    mpg ~ sapply(hp, function(x) if (x > 150) "fast" else "slow"), ifelse(am == 1, mpg, 0) ~ wt,
    mpg ~ t(sapply(hp, function(x) c(one = x, two = x^2)))
  )
  results <- run_ring(3, {
    data <- one_empty(mtcars, rank, size)
    lapply(formulas, function(formula) {
      fit <- ring_lm(comm, formula, data)
      list(coef(fit), predict(fit, mtcars))
    })
  }, formulas = formulas, one_empty = one_empty)
  for (i in seq_along(formulas)) {
    whole <- lm(formulas[[i]], mtcars)
    for (result in results) {
      expect_equal(result[[i]][[1]], coef(whole), tolerance = 1e-9)
      expect_equal(result[[i]][[2]], predict(whole, mtcars), tolerance = 1e-9)
    }
  }
})

test_that("integer64 is the numbers that it stands for, or an error", {
  comm <- local_world()
  numbers <- transform(mtcars, hp = hp * 1e13 + 1, am = c(NA, am[-1]))
  bits <- numbers
  bits$hp <- as_integer64(numbers$hp)
  bits$am <- as_integer64(ifelse(is.na(numbers$am), 0, numbers$am))
  # NA of bit64 has the bits of -0.
  bits$am <- structure(replace(unclass(bits$am), 1, -0), class = "integer64")
  for (f in list(
    function(data) coef(ring_lm(comm, mpg ~ hp + wt, data, weights = gear)),
    function(data) coef(ring_glm(comm, am ~ wt, binomial, data)),
    function(data) coef(ring_lm(comm, mpg ~ hp, ring_chunks(list(data, data)))),
    function(data) predict(ring_lm(comm, mpg ~ hp + wt, numbers), data),
    function(data) predict(ring_glm(comm, mpg ~ hp + wt, data = numbers), data),
    function(data) ring_cor(comm, data[c("hp", "wt")]),
    function(data) ring_scale(comm, data["hp"]), function(data) ring_scale(comm, data$hp),
    function(data) as.matrix(coef(ring_glmnet(comm, data[c("hp", "wt")], data$mpg, lambda = 0.1))),
    function(data) ring_quantile(comm, data$hp),
    function(data) ring_summary(comm, data["hp"])$numbers[, -2]
  )) expect_equal(f(bits), f(numbers), info = deparse(body(f)))
  odd <- bits
  large <- readBin(as.raw(c(1, 0, 0, 0, 0, 0, 32, 0)), "double", endian = "little") # for 2^53 + 1
  odd$hp <- structure(replace(unclass(odd$hp), 2, large), class = "integer64")
  expect_error(ring_lm(comm, mpg ~ hp, odd), "`hp` is .* doubles do not hold its value 2 exactly")
  k <- bits$hp
  expect_error(ring_lm(comm, mpg ~ k, mtcars), "`k` is of class integer64 outside of `data`: make")
  nano <- transform(mtcars, hp = structure(hp, class = "nanotime"))
  expect_error(ring_lm(comm, mpg ~ hp, nano), "`hp` is of class nanotime, and doubles do not h")
  expect_error(ring_cor(comm, nano["hp"]), "`hp` is of class nanotime")
})
