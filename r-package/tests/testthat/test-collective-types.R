# SPDX-License-Identifier: Apache-2.0

test_that("a world of one gives the types that larger ones give", {
  comm <- local_world()
  expect_identical(ring_allreduce(comm, TRUE), 1L)
  expect_identical(ring_allreduce(comm, 7L, "lor"), TRUE)
  expect_identical(ring_allreduce(comm, as.raw(7), "land"), as.raw(1))
  for (op in c("avg", "mean", "average")) expect_identical(ring_allreduce(comm, 7L, op), 7)
})

# The value of `code`, and the warnings that came on the way.
warned <- function(code) {
  messages <- character()
  value <- withCallingHandlers(code, warning = function(warning) {
    messages <<- c(messages, conditionMessage(warning))
    invokeRestart("muffleWarning")
  })
  list(value = value, messages = messages)
}

test_that("integers that do not fit are NA with a warning, on every rank", {
  most <- .Machine$integer.max
  results <- run_ring(2, warned = warned, most = most, {
    flags <- c(TRUE, rank == 0)
    list(
      sum = warned(ring_allreduce(comm, 1500000000L)),
      least = warned(ring_allreduce(comm, c(-most, -most + rank, 5L, -1L)[c(1, 3, 4)])),
      product = warned(ring_allreduce(comm, c(50000L, 46340L, -most), "prod")),
      matrix = warned(ring_allreduce(comm, matrix(c(most, 1L), 1, dimnames = list("a", NULL)))),
      names = warned(ring_allreduce(comm, c(a = most, b = 1L))),
      logical = warned(ring_allreduce(comm, flags)),
      reduce = warned(ring_reduce(comm, c(most, 2L), root = 1)),
      scatter = warned(ring_reduce_scatter(comm, c(most, 2L))),
      extremes = warned(list(ring_allreduce(comm, c(most, -most), "max"),
                             ring_allreduce(comm, c(most, -most), "min"))),
      raw = warned(ring_allreduce(comm, as.raw(200))),
      double = warned(ring_allreduce(comm, as.double(most)))
    )
  })
  over <- "NAs produced by integer overflow: call as.double() on the vectors, on every rank"
  for (rank in 0:1) {
    result <- results[[rank + 1]]
    expect_identical(result$sum, list(value = NA_integer_, messages = over))
    expect_identical(result$least, list(value = c(NA, 10L, -2L), messages = over))
    expect_identical(result$product, list(value = c(NA, 46340L * 46340L, NA), messages = over))
    table <- matrix(c(NA, 2L), 1, dimnames = list("a", NULL))
    expect_identical(result$matrix, list(value = table, messages = over))
    expect_identical(result$names, list(value = c(a = NA, b = 2L), messages = over))
    expect_identical(result$logical, list(value = 2:1, messages = character()))
    expect_identical(result$reduce, list(
      value = if (rank == 1) c(NA, 4L), messages = if (rank == 1) over else character()
    ))
    expect_identical(result$scatter, list(
      value = c(NA, 4L)[[rank + 1]], messages = if (rank == 0) over else character()
    ))
    expect_identical(result$extremes$value, list(c(most, -most), c(most, -most)))
    expect_identical(result$raw, list(value = as.raw(144), messages = character()))
    expect_identical(result$double, list(value = 2 * most, messages = character()))
  }
})

test_that("integers that fit are right, whatever partial results are", {
  results <- run_ring(3, warned = warned, {
    most <- .Machine$integer.max
    large <- rep(c(most, most, -most)[[rank + 1]], 2e5)
    list(
      sum = warned(ring_allreduce(comm, c(most, most, -most)[[rank + 1]])),
      product = warned(ring_allreduce(comm, c(most, most, 0L)[[rank + 1]], "prod")),
      negative = warned(ring_allreduce(comm, c(-1L, most, 1L)[[rank + 1]], "prod")),
      large = identical(ring_allreduce(comm, large), rep(most, 2e5)),
      average = ring_allreduce(comm, most, "avg"),
      empty = warned(ring_allreduce(comm, integer()))
    )
  })
  for (result in results) {
    expect_identical(result$sum, list(value = .Machine$integer.max, messages = character()))
    expect_identical(result$product, list(value = 0L, messages = character()))
    expect_identical(result$negative, list(value = -.Machine$integer.max, messages = character()))
    expect_true(result$large)
    expect_identical(result$average, as.double(.Machine$integer.max))
    expect_identical(result$empty, list(value = integer(), messages = character()))
  }
  many <- run_ring(40, ring_allreduce(comm, if (rank < 39) .Machine$integer.max else 0L, "prod"))
  for (result in many) expect_identical(result, 0L) # the product of 39 is past what doubles hold
})

test_that("groups and started calls give NA with one warning", {
  results <- run_ring(2, warned = warned, {
    most <- .Machine$integer.max
    xs <- list(a = most, b = c(TRUE, FALSE), c = matrix(c(most, 1L), 1))
    sum <- ring_allreduce_start(comm, c(a = most, b = 1L))
    group <- ring_allreduce_group_start(comm, xs)
    reduce <- ring_reduce_start(comm, most)
    part <- ring_reduce_scatter_start(comm, c(most, 1L), "prod")
    list(
      group = warned(ring_allreduce_group(comm, xs)), started_group = warned(ring_wait(group)),
      sum = warned(ring_wait(sum)), again = warned(ring_wait(sum)),
      reduce = warned(ring_wait(reduce)), part = warned(ring_wait(part))
    )
  })
  over <- "NAs produced by integer overflow: call as.double() on the vectors, on every rank"
  sums <- list(a = NA_integer_, b = c(2L, 0L), c = matrix(c(NA, 2L), 1))
  for (rank in 0:1) {
    result <- results[[rank + 1]]
    expect_identical(result$group, list(value = sums, messages = over))
    expect_identical(result$started_group, list(value = sums, messages = over))
    expect_identical(result$sum, list(value = c(a = NA, b = 2L), messages = over))
    expect_identical(result$again, list(value = c(a = NA, b = 2L), messages = character()))
    on_root <- if (rank == 0) over else character()
    expect_identical(result$reduce, list(value = if (rank == 0) NA_integer_, messages = on_root))
    expect_identical(result$part, list(value = c(NA, 1L)[[rank + 1]], messages = on_root))
  }
})

test_that("the warning names the user's call, and as an error it leaves the ring whole", {
  results <- run_ring(2, {
    call <- tryCatch(ring_allreduce(comm, 2e9L), warning = conditionCall)
    options(warn = 2)
    error <- tryCatch(ring_allreduce(comm, 2e9L), error = conditionMessage)
    list(call = call, error = error, sum = ring_allreduce(comm, 1L))
  })
  for (result in results) {
    expect_identical(result$call, quote(ring_allreduce(comm, 2e9L)))
    expect_match(result$error, "NAs produced by integer overflow")
    expect_identical(result$sum, 2L)
  }
})

test_that("integers of one rank and doubles of another are refused in a sum or a product", {
  for (op in c("sum", "prod")) {
    results <- run_ranks(2, op = op, {
      comm <- open(call_timeout = 20)
      tryCatch({
        ring_allreduce(comm, if (rank == 0) 2L else 1.5, op)
        ring_barrier(comm)
      }, ring_error = function(error) class(error)[[1]])
    })
    expect_identical(results, list("ring_error_mismatch", "ring_error_mismatch"))
  }
})
