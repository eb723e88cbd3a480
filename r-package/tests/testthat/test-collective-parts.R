# SPDX-License-Identifier: Apache-2.0

test_that("allgather puts the ranks last", {
  results <- run_ring(3, {
    blocks <- matrix(1:6 + 10L * rank, 2, dimnames = list(row = c("u", "v"), NULL))
    list(
      number = ring_allgather(comm, rank),
      vector = ring_allgather(comm, c(a = rank, b = NA)),
      matrix = ring_allgather(comm, blocks),
      logical = ring_allgather(comm, c(TRUE, NA)),
      raw = ring_allgather(comm, as.raw(rank)),
      empty = ring_allgather(comm, double())
    )
  })
  columns <- matrix(c(0L, NA, 1L, NA, 2L, NA), 2, dimnames = list(c("a", "b"), NULL))
  for (result in results) {
    expect_identical(result$number, 0:2)
    expect_identical(result$vector, columns)
    expect_identical(dim(result$matrix), c(2L, 3L, 3L))
    expect_identical(dimnames(result$matrix), list(row = c("u", "v"), NULL, NULL))
    expect_identical(c(result$matrix[, , 3]), 21:26)
    expect_identical(result$logical, matrix(c(TRUE, NA), 2, 3))
    expect_identical(result$raw, as.raw(0:2))
    expect_identical(result$empty, matrix(double(), 0, 3))
  }
})

test_that("reduce_scatter gives every rank its part", {
  for (size in 1:4) {
    results <- run_ring(size, {
      mine <- cases_of(rank, 2L * size)
      own <- 2L * rank + 1:2
      check <- function(x, op) {
        if (is.complex(x) && op == "max") op <- "sum"
        whole <- ring_allreduce(comm, x, op)
        if (extent(x) > 0L) whole <- steps(whole, own)
        identical(ring_reduce_scatter(comm, x, op), whole)
      }
      labelled <- matrix(1:2, 2, size, dimnames = list(c("u", "v"), letters[seq_len(size)]))
      list(
        agreed = vapply(c(mine, mine), check, NA, op = "max"),
        averages = vapply(mine, check, NA, op = "avg"),
        labelled = ring_reduce_scatter(comm, labelled),
        named = ring_reduce_scatter(comm, c(a = 1, b = 2, c = 3, d = 4)[rep(1, size)])
      )
    }, cases_of = cases_of, steps = steps)
    for (rank in seq_len(size)) {
      result <- results[[rank]]
      expect_true(all(result$agreed) && all(result$averages))
      column <- matrix(1:2 * size, 2, 1, dimnames = list(c("u", "v"), letters[[rank]]))
      expect_identical(result$labelled, column)
      expect_identical(result$named, c(a = as.double(size)))
    }
  }
})

test_that("gather gives root what allgather gives, and the others NULL", {
  for (size in 1:4) {
    agreed <- run_ring(size, {
      check <- function(x) {
        all <- ring_allgather(comm, x)
        roots <- seq_len(size) - 1L
        all(vapply(roots, function(root) {
          identical(ring_gather(comm, x, root), if (rank == root) all)
        }, NA))
      }
      vapply(c(cases_of(rank, 5L), list(rank, c(a = NA, b = 1L), c(TRUE, NA))), check, NA)
    }, cases_of = cases_of)
    for (each in agreed) expect_true(all(each))
  }
})

test_that("scatter and alltoall cut into equal parts", {
  for (size in 1:4) {
    agreed <- run_ring(size, {
      ranks <- seq_len(size) - 1L
      every <- lapply(ranks, cases_of, 3L * size)
      part <- function(x, of) if (extent(x) == 0L) x else steps(x, 3L * of + 1:3)
      check <- function(name) {
        xs <- lapply(every, `[[`, name)
        scattered <- vapply(ranks, function(root) {
          given <- if (rank == root) xs[[root + 1L]] else rev(xs[[rank + 1L]])
          dim(given) <- dim(xs[[1L]])
          identical(ring_scatter(comm, given, root), part(xs[[root + 1L]], rank))
        }, NA)
        came <- concatenated(lapply(xs, part, rank))
        all(scattered, identical(ring_alltoall(comm, xs[[rank + 1L]]), came))
      }
      vapply(names(every[[1L]]), check, NA)
    }, cases_of = cases_of, steps = steps, concatenated = concatenated)
    for (each in agreed) expect_identical(names(each)[!each], character())
  }
})

test_that("parts keep their names and missing values", {
  results <- run_ring(2, {
    x <- c(a = 1, b = NA, c = NaN, d = 4) + rank
    labelled <- matrix(c(TRUE, NA), 1, 2, dimnames = list("u", c("v", "w")))
    list(ring_scatter(comm, x), ring_alltoall(comm, x), ring_scatter(comm, labelled))
  })
  expect_identical(results[[1]][[1]], c(a = 1, b = NA))
  expect_identical(results[[2]][[1]], c(c = NaN, d = 4))
  expect_identical(results[[2]][[2]], c(a = NaN, b = 4, c = NaN, d = 5))
  expect_identical(results[[2]][[3]], matrix(NA, 1, 1, dimnames = list("u", "w")))
})
