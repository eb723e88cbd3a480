# SPDX-License-Identifier: Apache-2.0

test_that("scan and exscan give running totals, and keep names and types", {
  results <- run_ring(3, {
    x <- c(a = rank + 1, b = NA)
    list(
      scan = ring_scan(comm, x), exscan = ring_exscan(comm, x),
      integers = ring_scan(comm, rank + 1L, "prod"), most = ring_exscan(comm, rank + 1L, "max"),
      flags = ring_exscan(comm, rank == 0, "lor"),
      least = ring_exscan(comm, 1.5, "min"),
      large = ring_scan(comm, .Machine$integer.max - 1L + rank * 0L),
      average = tryCatch(ring_scan(comm, 1, "avg"), error = conditionMessage)
    )
  }, warnings = FALSE)
  for (rank in 0:2) {
    result <- results[[rank + 1L]]
    expect_identical(result$scan, c(a = c(1, 3, 6)[[rank + 1L]], b = NA))
    expect_identical(result$exscan[["a"]], c(0, 1, 3)[[rank + 1L]])
    expect_identical(result$integers, c(1L, 2L, 6L)[[rank + 1L]])
    expect_identical(result$most, c(NA, 1L, 2L)[[rank + 1L]])
    expect_identical(result$flags, rank > 0)
    expect_identical(result$least, c(Inf, 1.5, 1.5)[[rank + 1L]])
    expect_identical(result$large, c(.Machine$integer.max - 1L, NA, NA)[[rank + 1L]])
    expect_match(result$average, "divide the result of sum")
  }
})

test_that("reduce_scatterv gives every rank its rows", {
  results <- run_ring(3, {
    blocks <- matrix(1:6, 2, dimnames = list(c("u", "v"), c("p", "q", "r")))
    list(
      part = ring_reduce_scatterv(comm, blocks, c(2, 0, 1)),
      named = ring_reduce_scatterv(comm, c(a = 1, b = 2), c(0, 1, 1), "avg"),
      bad = tryCatch(ring_reduce_scatterv(comm, 1:2, 1:3), error = conditionMessage)
    )
  })
  whole <- matrix(3L * 1:6, 2, dimnames = list(c("u", "v"), c("p", "q", "r")))
  expect_identical(results[[1]]$part, whole[, 1:2])
  expect_identical(dim(results[[2]]$part), c(2L, 0L))
  expect_identical(results[[3]]$part, whole[, 3, drop = FALSE])
  expect_identical(lapply(results, `[[`, "named"), list(c(a = 0)[0], c(a = 1), c(b = 2)))
  expect_match(results[[1]]$bad, "they must be equal")
})

test_that("factors multiply before and after a reduction", {
  results <- run_ring(2, {
    list(
      all = ring_allreduce(comm, c(a = 4), prescale = 0.5, postscale = 10),
      group = ring_allreduce_group(comm, list(4, 2), prescale = 5),
      root = ring_reduce(comm, 4, "max", postscale = 0.25),
      part = ring_reduce_scatter(comm, c(1, 2), prescale = 3),
      parts = ring_reduce_scatterv(comm, c(1, 2), c(2, 0), postscale = 3),
      integer = ring_allreduce(comm, 7L, postscale = 0.25),
      later = ring_wait(ring_allreduce_start(comm, 1:2, "avg", postscale = 2)),
      bad = tryCatch(ring_allreduce(comm, 1, prescale = "2"), error = conditionMessage)
    )
  })
  expect_identical(results[[1]]$all, c(a = 40))
  expect_identical(results[[2]]$group, list(40, 20))
  expect_identical(lapply(results, `[[`, "root"), list(1, NULL))
  expect_identical(lapply(results, `[[`, "part"), list(6, 12))
  expect_identical(lapply(results, `[[`, "parts"), list(c(6, 12), double()))
  expect_identical(results[[1]]$integer, 3L)
  expect_identical(results[[1]]$later, c(2, 4))
  expect_match(results[[1]]$bad, "must be one number each")
})
