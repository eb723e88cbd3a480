# SPDX-License-Identifier: Apache-2.0

test_that("allreduce applies every op to every type", {
  results <- run_ring(3, {
    reduce <- function(x) {
      lapply(
        c(sum = "sum", prod = "prod", min = "min", max = "max", avg = "avg"),
        function(op) ring_allreduce(comm, x, op)
      )
    }
    truth <- function(x) {
      list(land = ring_allreduce(comm, x, "land"), lor = ring_allreduce(comm, x, "lor"))
    }
    flags <- list(c(TRUE, rank == 1, FALSE), c(7L, rank, 0L), as.raw(c(9, rank, 0)))
    list(
      double = reduce(c(0.5, 2) + rank), integer = reduce(c(1L, -2L) * (rank + 1L)),
      logical = reduce(c(TRUE, rank == 1)), raw = reduce(as.raw(rank + 1)),
      truth = lapply(flags, truth)
    )
  })
  expect_identical(results[[1]], results[[2]])
  expect_identical(results[[1]], results[[3]])
  got <- results[[1]]
  expect_identical(got$double, list(
    sum = c(4.5, 9), prod = c(1.875, 24), min = c(0.5, 2), max = c(2.5, 4), avg = c(1.5, 3)
  ))
  expect_identical(got$integer, list(
    sum = c(6L, -12L), prod = c(6L, -48L), min = c(1L, -6L), max = c(3L, -2L), avg = c(2, -4)
  ))
  expect_identical(got$logical, list(
    sum = c(3L, 1L), prod = c(1L, 0L), min = c(1L, 0L), max = c(1L, 1L), avg = c(1, 1 / 3)
  ))
  expect_identical(got$raw, list(
    sum = as.raw(6), prod = as.raw(6), min = as.raw(1), max = as.raw(3), avg = 2
  ))
  expect_identical(got$truth, list(
    list(land = c(TRUE, FALSE, FALSE), lor = c(TRUE, TRUE, FALSE)),
    list(land = c(TRUE, FALSE, FALSE), lor = c(TRUE, TRUE, FALSE)),
    list(land = as.raw(c(1, 0, 0)), lor = as.raw(c(1, 1, 0)))
  ))
})

test_that("a world of one gives the types that larger ones give", {
  comm <- local_world()
  expect_identical(ring_allreduce(comm, TRUE), 1L)
  expect_identical(ring_allreduce(comm, 7L, "lor"), TRUE)
  expect_identical(ring_allreduce(comm, as.raw(7), "land"), as.raw(1))
  expect_identical(ring_allreduce(comm, 7L, "avg"), 7)
})

test_that("integer sums wrap around, and doubles do not", {
  results <- run_ring(2, {
    most <- .Machine$integer.max
    list(ring_allreduce(comm, c(most, 5L)), ring_allreduce(comm, as.double(most)))
  })
  expect_identical(results[[1]], list(c(-2L, 10L), 2 * .Machine$integer.max))
})

test_that("broadcast gives every rank what root has", {
  results <- run_ring(3, {
    lapply(
      list(c(1.5, NA, NaN), c(3L, NA), c(TRUE, NA), as.raw(1:3), double()),
      function(x) ring_broadcast(comm, if (rank == 2) x else rev(x), root = 2)
    )
  })
  expected <- list(c(1.5, NA, NaN), c(3L, NA), c(TRUE, NA), as.raw(1:3), double())
  for (result in results) expect_identical(result, expected)
})

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

test_that("large vectors give the same bytes on every rank", {
  results <- run_ring(4, {
    set.seed(rank)
    x <- rnorm(3e5)
    list(mine = x, sum = ring_allreduce(comm, x), gathered = ring_allgather(comm, x))
  })
  all <- vapply(results, function(result) result$mine, double(3e5))
  for (result in results) {
    expect_identical(result$sum, results[[1]]$sum)
    expect_equal(result$sum, rowSums(all))
    expect_identical(result$gathered, all)
  }
})

test_that("barrier waits for the last", {
  folder <- tempfile("barrier")
  dir.create(folder)
  seen <- run_ring(3, {
    file.create(file.path(folder, rank))
    ring_barrier(comm)
    length(dir(folder))
  }, folder = folder)
  unlink(folder, recursive = TRUE)
  expect_identical(seen, list(3L, 3L, 3L))
})
