# SPDX-License-Identifier: Apache-2.0

test_that("a summary has the numbers of base R", {
  data <- cbind(airquality, day = as.Date("1973-01-01") + 0:152, hot = airquality$Temp > 80,
                name = c("a", "b", NA)[rep(1:3, 51)])
  data$level <- factor(data$Month, levels = 9:4)
  results <- run_ring(3, {
    text <- tryCatch(ring_summary(comm, data, top = 1 - rank), error = conditionMessage)
    list(ring_summary(comm, one_empty(data, rank, size)), text)
  }, data = data, one_empty = one_empty)
  found <- results[[1]][[1]]
  expect_identical(results[[2]][[1]], found)
  expect_match(results[[1]][[2]], "rank 1 .* failed: `top` is 0: it must be 1 or more")
  expect_identical(found$rows, 153)
  expect_identical(found$numbers$variable, names(data)[1:7])
  numbers <- data.frame(lapply(data[1:7], as.double))
  expect_equal(found$numbers$mean, unname(colMeans(numbers, na.rm = TRUE)), tolerance = 1e-14)
  expect_equal(found$numbers$sd, unname(sapply(numbers, sd, na.rm = TRUE)), tolerance = 1e-14)
  expect_equal(found$numbers$q25, unname(sapply(numbers, quantile, 0.25, na.rm = TRUE)))
  expect_equal(found$numbers$missing, unname(colSums(is.na(numbers))))
  expect_identical(found$values$variable, c("hot", "name", "level"))
  expect_identical(found$values$unique, c(2L, 2L, 5L))
  expect_identical(found$values$missing, c(0, 51, 0))
  expect_identical(found$values$top[[2]], "a: 51, b: 51")
  expect_identical(found$values$top[[3]], "5: 31, 7: 31, 8: 31")
  expect_output(print(found), "153 rows on all ranks\n\n.*variable type +missing mean")
})

test_that("a rank may lack values of a column, and so may all", {
  results <- run_ring(3, {
    data <- data.frame(x = c(1, Inf), day = as.Date("2024-01-01") + 1:2, none = NA, f = c("a", "b"))
    if (rank == 0) data[1:3] <- NA
    if (rank == 2) data <- data.frame(x = NA, day = NA, none = "", f = factor(""))[0L, ]
    data$wait <- as.difftime(seq_len(nrow(data)), units = if (rank == 1) "mins" else "secs")
    other <- tryCatch(ring_summary(comm, data), error = conditionMessage)
    list(ring_summary(comm, data[1:4]), other)
  })
  found <- results[[1]][[1]]
  for (result in results) {
    expect_identical(result[[1]], found)
    expect_match(result[[2]], "`wait` is a difftime in secs on rank 0 and a difftime in mins")
  }
  expect_identical(found$numbers$type, c("numeric", "Date"))
  expect_identical(found$numbers$mean, c(Inf, 19724.5))
  expect_identical(found$values$unique, c(0L, 2L))
  expect_identical(found$values$missing, c(4, 0))
  expect_output(print(found), "2024-01-02")
  comm <- local_world()
  expect_identical(ring_summary(comm, data.frame(a = character()))$values$unique, 0L)
  spans <- data.frame(wait = as.difftime(c(1, 5), units = "mins"))
  expect_identical(ring_summary(comm, spans)$numbers$mean, 3)
})

test_that("columns of one kind, many values and no rows are no exception", {
  comm <- local_world()
  expect_identical(nrow(ring_summary(comm, mtcars)$values), 0L)
  many <- ring_summary(comm, data.frame(id = as.character(1:10001), part = I(as.list(1:10001))))
  expect_identical(many$values$unique, c(NA, NA_integer_))
  expect_identical(nrow(many$numbers), 0L)
  none <- ring_summary(comm, cbind(mtcars, day = Sys.Date())[0, ])
  expect_identical(none$numbers$median, rep(NA_real_, 12))
  expect_identical(none$numbers$mean, rep(NA_real_, 12))
  expect_output(print(none), "day +Date +0 +<NA> +NA +<NA>")
  expect_error(ring_summary(comm, 1:3), "`x` must be a data frame, not")
  skip_if_not_installed("tibble")
  expect_identical(ring_summary(comm, tibble::as_tibble(iris)), ring_summary(comm, iris))
})
