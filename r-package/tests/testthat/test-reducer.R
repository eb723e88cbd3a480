# SPDX-License-Identifier: Apache-2.0

test_that("names are reduced in any order", {
  results <- run_ring(3, {
    reducer <- ring_reducer(comm)
    order <- (seq_len(20) + 7 * rank) %% 20
    started <- list()
    for (i in order) {
      started[[paste(i)]] <- ring_submit(reducer, paste("tensor", i), matrix(i + rank, 2, 3))
    }
    sums <- vapply(started[order(order)], function(of) unique(c(ring_submission_wait(of))), 0)
    mean <- ring_submission_wait(ring_submit(reducer, "mean", rank, op = "avg"))
    dims <- dim(ring_submission_wait(started[["3"]]))
    ring_reducer_close(reducer)
    list(sums = unname(sums), mean = mean, dims = dims)
  })
  for (result in results) {
    expect_identical(result$sums, 3 * (0:19) + 3)
    expect_identical(result$mean, 1)
    expect_identical(result$dims, c(2L, 3L))
  }
})

test_that("every kind of operation has a name", {
  results <- run_ring(2, {
    reducer <- ring_reducer(comm, cycle_time = 0)
    run <- function(...) ring_submission_wait(ring_submit(reducer, ...))
    result <- list(
      rows = run("rows", matrix(rank, 2, rank + 1), kind = "allgather"),
      swap = run("swap", 0:2 + 10 * rank, kind = "alltoall", splits = 1:2),
      part = run("part", 1:3, kind = "reduce_scatter"),
      root = run("root", rank, kind = "broadcast", root = 1),
      none = run("barrier", kind = "barrier")
    )
    ring_reducer_close(reducer)
    result
  })
  expect_identical(results[[1]]$rows, matrix(c(0, 0, 1, 1, 1, 1), 2))
  expect_identical(results[[1]]$swap, c(0, 10))
  expect_identical(results[[2]]$swap, c(1, 2, 11, 12))
  expect_identical(results[[1]]$part, c(2, 4))
  expect_identical(results[[2]]$part, 6)
  expect_identical(results[[1]]$root, 1)
  expect_null(results[[1]]$none)
})

test_that("what differs fails under its name on all ranks", {
  results <- run_ring(2, {
    reducer <- ring_reducer(comm)
    caught <- tryCatch(
      ring_submission_wait(ring_submit(reducer, "x", numeric(3 + rank))),
      ring_error_mismatch = conditionMessage
    )
    again <- ring_submission_wait(ring_submit(reducer, "x", 1))
    ring_reducer_close(reducer)
    list(caught = caught, again = again)
  })
  for (result in results) {
    expect_match(result$caught, "rank 1 .* submitted allreduce of float64 \\[4, 1\\], sum")
    expect_identical(result$again, 2)
  }
})

test_that("ranks that have joined give zeros", {
  results <- run_ring(2, {
    reducer <- ring_reducer(comm)
    sums <- vapply(
      seq_len(3 * rank), function(i) ring_submission_wait(ring_submit(reducer, "x", 1)), 0
    )
    last <- ring_join(reducer)
    ring_reducer_close(reducer)
    list(sums = sums, last = last)
  })
  expect_identical(results[[2]]$sums, c(1, 1, 1))
  expect_identical(results[[1]]$last, 1L)
})

test_that("threshold and cycle time are tuned", {
  log <- tempfile()
  run_ring(2, log = log, {
    reducer <- ring_reducer(comm, autotune_log = log)
    for (i in 1:160) ring_submission_wait(ring_submit(reducer, "x", 1))
    ring_reducer_close(reducer)
  })
  tried <- read.csv(log)
  expect_named(tried, c("threshold", "cycle_time", "bytes_per_second", "chosen"))
  expect_identical(tried$chosen, rep(0:1, c(14, 1)))
  unlink(log)
})

test_that("bad arguments are refused", {
  comm <- ring_init()
  reducer <- ring_reducer(comm)
  expect_error(ring_submit(reducer, "x", "a"), "`x` must be a plain numeric", class = "ring_error")
  expect_error(ring_submit(reducer, 1, 1), "`name` must be one string", class = "ring_error")
  expect_error(ring_submit(reducer, "", 1), "the name is empty", class = "ring_error")
  expect_error(ring_submit(reducer, "x", 1, op = "no"), "no operation", class = "ring_error")
  expect_error(ring_submit(comm, "x", 1), "`reducer` must be a reducer", class = "ring_error")
  expect_error(ring_reducer(comm, cycle_time = 1), "0 to 0.005 seconds", class = "ring_error")
  expect_error(ring_reducer(comm, autotune = 1), "`autotune` must be TRUE", class = "ring_error")
  ring_reducer_close(reducer)
  ring_close(comm)
})
