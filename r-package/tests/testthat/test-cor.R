# SPDX-License-Identifier: Apache-2.0

test_that("correlations are those of cor() on all rows", {
  results <- run_ring(3, {
    data <- one_empty(airquality, rank, size)
    shifted <- one_empty(mtcars + 1e7, rank, size)
    list(
      ring_cor(comm, shifted), ring_cor(comm, data), ring_cor(comm, data, use = "complete.obs"),
      ring_cor(comm, data[c("Wind", "Temp")], data$Month, method = "spearman"),
      ring_cor(comm, data, method = "spearman", use = "complete.obs"),
      ring_cor(comm, unname(as.matrix(shifted[, 1:2]))),
      tryCatch(ring_cor(comm, data, if (rank == 0) data), error = conditionMessage),
      tryCatch(ring_cor(comm, data, use = if (rank == 1) "all"), error = conditionMessage)
    )
  }, one_empty = one_empty)
  expected <- list(
    cor(mtcars), cor(airquality), cor(airquality, use = "complete.obs"),
    cor(airquality[c("Wind", "Temp")], airquality$Month, method = "spearman"),
    cor(airquality, method = "spearman", use = "complete.obs"),
    cor(unname(as.matrix(mtcars[, 1:2])))
  )
  # The shift leaves numbers of 1e-9.
  expect_equal(results[[1]][[1]], expected[[1]], tolerance = 1e-8)
  expect_equal(results[[1]][2:6], expected[-1], tolerance = 1e-8)
  expect_match(results[[1]][[7]], "rank 1 has another is.null\\(y\\) than rank 0")
  expect_match(results[[1]][[8]], "rank 1 .* failed: `.*` must be one of")
  for (i in 2:5) expect_equal(results[[1]][[i]], expected[[i]], tolerance = 1e-14)
  expect_identical(results[[2]][1:6], results[[1]][1:6])
})

test_that("ranks of values are those of rank()", {
  set.seed(1)
  samples <- list(rnorm(1000), sample(3, 50, TRUE), rep(1, 9), c(2, 1), double())
  results <- run_ring(4, {
    lapply(samples, function(x) ranks_of(comm, x[seq_along(x) %% size == rank]))
  }, samples = samples)
  for (i in seq_along(samples)) {
    expected <- rank(samples[[i]])
    for (rank in 0:3) {
      expect_identical(results[[rank + 1]][[i]], expected[seq_along(expected) %% 4 == rank])
    }
  }
})

test_that("what cannot be correlated is an error", {
  comm <- local_world()
  expect_error(ring_cor(comm, mtcars[1:2], 1:3), "`x` has 32 rows and `y` has 3: pass the same")
  expect_error(ring_cor(comm, iris), "must be numbers, and `Species` is a factor of length 150")
  expect_warning(flat <- ring_cor(comm, cbind(1, 1:3)), "the standard deviation is zero")
  expect_identical(flat, suppressWarnings(cor(cbind(1, 1:3))))
  expect_identical(ring_cor(comm, mtcars[1, 1:2]), cor(mtcars[1, 1:2]))
  expect_error(ring_cor(comm, mtcars[0, ]), "there are no rows on any rank")
  expect_error(ring_cor(comm, cbind(NA, 1:3), use = "complete.obs"), "no rows without missing")
})
