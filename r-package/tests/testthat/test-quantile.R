# SPDX-License-Identifier: Apache-2.0

test_that("quantiles of all types are those of quantile() on all rows", {
  set.seed(1)
  samples <- list(
    normal = rnorm(1001), ties = sample(5, 300, TRUE), one = 7, infinite = c(-Inf, 1:9, Inf),
    missing = c(NA, 3, 1, NaN, 2), few = c(2, 1)
  )
  probs <- c(0, 0.01, 0.25, 1 / 3, 0.5, 0.9, 1)
  results <- run_ring(3, {
    lapply(samples, function(x) {
      x <- x[seq_along(x) %% size == rank]
      vapply(1:9, function(type) ring_quantile(comm, x, probs, TRUE, type = type), probs)
    })
  }, samples = samples, probs = probs)
  for (name in names(samples)) {
    expected <- vapply(1:9, function(type) {
      quantile(samples[[name]], probs, TRUE, type = type)
    }, probs)
    expect_equal(results[[2]][[name]], expected, tolerance = 1e-15, info = name)
  }
})

test_that("large vectors take few rounds, and columns are one call", {
  results <- run_ring(3, {
    set.seed(rank)
    x <- cbind(normal = rnorm(2e5), ties = round(rnorm(2e5)), skewed = rexp(2e5)^5)
    if (rank == 1) x <- x[0, ]
    before <- ring_counters(comm)
    found <- ring_quantile(comm, x, c(0.001, 0.3, 0.999))
    calls <- ring_counters(comm)$calls - before$calls
    list(x = x, found = found, calls = calls)
  })
  whole <- do.call(rbind, lapply(results, `[[`, "x"))
  expected <- apply(whole, 2, quantile, c(0.001, 0.3, 0.999))
  expect_identical(results[[1]]$found, expected)
  expect_lt(results[[1]]$calls, 25)
})

test_that("quantiles of columns of dates, times and durations keep their class", {
  whole <- data.frame(
    day = as.Date("2020-01-01") + c(0, 1, 5, 10), n = c(1, 2, 4, 8),
    at = as.POSIXct("2020-01-01", tz = "UTC") + 0:3, wait = as.difftime(0:3, units = "mins")
  )
  results <- run_ring(3, {
    x <- whole[seq_len(nrow(whole)) %% 2 == rank, ] # none on rank 2
    if (rank == 2) x$day <- x$at <- logical()
    list(ring_quantile(comm, x, c(0.25, 0.25, 1)), ring_quantile(comm, x["n"], 0.5),
         ring_quantile(comm, x, 0.5, names = FALSE))
  }, whole = whole)
  found <- results[[1]][[1]]
  expect_identical(results[[3]], results[[1]])
  expect_identical(row.names(found), c("25%", "25%.1", "100%"))
  days <- .Date(quantile(unclass(whole$day), c(0.25, 0.25, 1), names = FALSE))
  expect_identical(found$day, days) # 0.75 of a day after the first
  expect_equal(found$at, quantile(whole$at, c(0.25, 0.25, 1), names = FALSE))
  expect_equal(found$wait, quantile(whole$wait, c(0.25, 0.25, 1), names = FALSE))
  expect_identical(found$n, c(1.75, 1.75, 8))
  expect_identical(results[[1]][[2]], array(3, c(1, 1), list("50%", "n")))
  expect_identical(row.names(results[[1]][[3]]), "1")
  comm <- local_world()
  expect_s3_class(ring_quantile(comm, whole["day"][0, , drop = FALSE])$day, "Date")
  expect_error(ring_quantile(comm, factor(1:3, ordered = TRUE), type = 1), "must be numbers, not")
})

test_that("quantiles have the names and the errors of quantile()", {
  comm <- local_world()
  expect_identical(ring_quantile(comm, mtcars$hp), quantile(mtcars$hp))
  expect_identical(ring_quantile(comm, mtcars$hp, 0.12345678), quantile(mtcars$hp, 0.12345678))
  expect_null(names(ring_quantile(comm, mtcars$hp, names = FALSE)))
  expect_identical(dim(ring_quantile(comm, mtcars[1:3])), c(5L, 3L))
  days <- as.Date("2020-01-01") + 0:10
  expect_identical(ring_quantile(comm, days, 0.5, names = FALSE), as.Date("2020-01-06"))
  times <- as.POSIXct("2020-01-01", tz = "Asia/Tokyo") + 0:3
  expect_equal(ring_quantile(comm, times), quantile(times))
  expect_true(all(is.na(ring_quantile(comm, double()))))
  expect_error(ring_quantile(comm, c(1, NA)), "missing values are not allowed if `na.rm` is FALSE")
  expect_error(ring_quantile(comm, 1, 2), "`probs` must be numbers from 0 to 1, not 2")
  expect_error(ring_quantile(comm, "a"), "`x` must be numbers")
  results <- run_ring(2, {
    text <- function(...) tryCatch(ring_quantile(comm, ...), error = conditionMessage)
    c(text(1, rank / 2), text(as.difftime(2, units = if (rank == 0) "mins" else "hours")),
      text(if (rank == 0) Sys.Date() else 1))
  })
  expect_match(results[[1]][[1]], "rank 1 passed other columns, `probs` or another `type` than ran")
  expect_match(results[[1]][[2]], "`x` is a difftime in mins on rank 0 and a difftime in h")
  expect_match(results[[1]][[3]], "`x` is of class Date on rank 0 and numbers on rank 1: ")
})
