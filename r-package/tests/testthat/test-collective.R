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
      ops <- c(land = "land", lor = "lor", lxor = "lxor", band = "band", bor = "bor", bxor = "bxor")
      lapply(ops, function(op) ring_allreduce(comm, x, op))
    }
    flags <- list(c(TRUE, rank == 1, FALSE), c(7L, rank, 0L), as.raw(c(9, rank, 0)))
    list(
      double = reduce(c(0.5, 2) + rank), integer = reduce(c(1L, -2L) * (rank + 1L)),
      logical = reduce(c(TRUE, rank == 1)), raw = reduce(as.raw(rank + 1)),
      truth = lapply(flags, truth),
      complex = lapply(
        c(sum = "sum", prod = "prod", avg = "avg"),
        function(op) ring_allreduce(comm, c(a = 1i + rank, b = 2 - 1i * rank), op)
      )
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
  expect_identical(got$complex, list(
    sum = c(a = 3 + 3i, b = 6 - 3i), prod = c(a = -3 + 1i, b = 4 - 12i),
    avg = c(a = 1 + 1i, b = 2 - 1i)
  ))
  expect_identical(got$truth, list(
    list(
      land = c(TRUE, FALSE, FALSE), lor = c(TRUE, TRUE, FALSE), lxor = c(TRUE, TRUE, FALSE),
      band = c(1L, 0L, 0L), bor = c(1L, 1L, 0L), bxor = c(1L, 1L, 0L)
    ),
    list(
      land = c(TRUE, FALSE, FALSE), lor = c(TRUE, TRUE, FALSE), lxor = c(TRUE, FALSE, FALSE),
      band = c(7L, 0L, 0L), bor = c(7L, 3L, 0L), bxor = c(7L, 3L, 0L)
    ),
    list(
      land = as.raw(c(1, 0, 0)), lor = as.raw(c(1, 1, 0)), lxor = as.raw(c(1, 0, 0)),
      band = as.raw(c(9, 0, 0)), bor = as.raw(c(9, 3, 0)), bxor = as.raw(c(9, 3, 0))
    )
  ))
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

test_that("what broadcast gives its root is a value of its own", {
  results <- run_ring(2, {
    x <- c(1, 2, 3)
    y <- ring_broadcast(comm, x)
    y[[1]] <- 7
    z <- ring_wait(ring_broadcast_start(comm, x))
    x[[2]] <- 8
    named <- ring_broadcast(comm, c(a = 1L, b = 2L))
    list(x, y, z, named)
  })
  expected <- list(c(1, 8, 3), c(7, 2, 3), c(1, 2, 3), c(a = 1L, b = 2L))
  for (result in results) expect_identical(result, expected)
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

test_that("reduce gives root what allreduce gives, and the others NULL", {
  for (size in 1:4) {
    results <- run_ring(size, {
      mine <- cases_of(rank, 5L)
      ops <- c("sum", "prod", "min", "max", "avg", "land", "lor", "lxor", "band", "bor", "bxor")
      agree <- function(x, op, root) {
        if (!has_op(x, op)) return(TRUE)
        all <- ring_allreduce(comm, x, op)
        identical(ring_reduce(comm, x, op, root), if (rank == root) all)
      }
      turns <- expand.grid(case = seq_along(mine), op = ops, stringsAsFactors = FALSE)
      agreed <- Map(
        function(case, op, turn) agree(mine[[case]], op, turn %% size),
        turns$case, turns$op, seq_len(nrow(turns))
      )
      named <- ring_reduce(comm, c(a = TRUE, b = rank == 0), root = size - 1)
      list(agreed = all(unlist(agreed)), named = named)
    }, cases_of = cases_of, has_op = has_op)
    for (result in results) expect_true(result$agreed)
    expect_identical(results[[size]]$named, c(a = size, b = 1L))
    for (result in results[-size]) expect_null(result$named)
  }
})
