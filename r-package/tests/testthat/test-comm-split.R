# SPDX-License-Identifier: Apache-2.0

test_that("a communicator is split by color and ordered by key", {
  results <- run_ring(4, {
    parity <- ring_comm_split(comm, rank %% 2)
    reversed <- ring_comm_split(comm, color = 3, key = -rank)
    result <- list(
      place = c(ring_rank(parity), ring_size(parity), ring_local_size(parity)),
      all = ring_allgather(parity, rank),
      reversed = ring_allgather(reversed, rank),
      shown = format(parity), class = class(parity)
    )
    ring_close(parity)
    ring_close(reversed)
    c(result, closed = format(parity), sum = ring_allreduce(comm, 1))
  })
  for (rank in 0:3) {
    result <- results[[rank + 1]]
    expect_identical(result$place, c(rank %/% 2L, 2L, 2L))
    expect_identical(result$all, c(0L, 2L) + rank %% 2L)
    expect_identical(result$reversed, 3:0)
    expect_match(result$shown, sprintf("<ring_comm> rank %d of 2 on .*, open$", rank %/% 2L))
    expect_match(result$closed, "closed$")
    expect_identical(result$class, "ring_comm")
    expect_identical(result$sum, 4)
  }
})

test_that("a rank without a color gets none", {
  results <- run_ring(3, {
    some <- ring_comm_split(comm, if (rank > 0) 0)
    other <- ring_comm_split(comm, if (rank == 1) NA else 5L)
    size <- if (!is.null(some)) ring_size(some)
    for (child in list(some, other)) if (!is.null(child)) ring_close(child)
    list(size = size, none = is.null(other))
  })
  expect_identical(results[[1]], list(size = NULL, none = FALSE))
  expect_identical(results[[2]], list(size = 2L, none = TRUE))
  expect_identical(results[[3]], list(size = 2L, none = FALSE))
})

test_that("both are used side by side, also with requests, and end independently", {
  results <- run_ranks(4, {
    comm <- open()
    half <- ring_comm_split(comm, rank %/% 2)
    whole <- lapply(1:5, function(i) ring_allreduce_start(comm, double(1e4) + i))
    part <- lapply(1:5, function(i) ring_allreduce_start(half, c(rank, i)))
    sums <- c(
      vapply(part, function(request) ring_wait(request)[[1]], 0),
      vapply(whole, function(request) ring_wait(request)[[1]], 0)
    )
    ring_close(comm)
    after <- ring_allreduce(half, 1)
    ring_close(half)
    list(sums = sums, after = after)
  })
  for (rank in 0:3) {
    expected <- c(rep(if (rank < 2) 1 else 5, 5), 4 * 1:5)
    expect_identical(results[[rank + 1]], list(sums = expected, after = 2))
  }
})

test_that("the child works when its parent was dropped, and frees what it has", {
  results <- run_ranks(2, {
    comm <- open()
    child <- ring_comm_split(comm, 0)
    ring_close(comm)
    rm(comm)
    gc()
    request <- ring_allreduce_start(child, 1:3)
    sum <- ring_wait(request)
    ring_close(child)
    comm <- open(job = "another")
    again <- ring_allreduce(comm, 1)
    ring_close(comm)
    rm(child, comm, request)
    gc()
    list(sum = sum, again = again, live = c(comm_live(), request_live()))
  })
  for (result in results) {
    expect_identical(result, list(sum = c(2L, 4L, 6L), again = 2, live = c(0L, 0L)))
  }
})

test_that("a failure of the child leaves the parent whole", {
  results <- run_ranks(2, {
    comm <- open()
    child <- ring_comm_split(comm, 0)
    if (rank == 0) ring_abort(child, "only this one")
    if (rank == 1) error <- tryCatch(ring_barrier(child), ring_error_aborted = conditionMessage)
    sum <- ring_allreduce(comm, 1)
    ring_close(comm)
    list(sum = sum, shown = format(child), error = if (rank == 1) error)
  })
  expect_match(results[[1]]$shown, "closed$")
  expect_match(results[[2]]$error, "only this one")
  for (result in results) expect_identical(result$sum, 2)
})

test_that("a world of one is split, too, and bad arguments are errors that name them", {
  comm <- local_world()
  child <- ring_comm_split(comm, 7)
  expect_identical(ring_allreduce(child, 2), 2)
  expect_identical(ring_size(ring_comm_split(child, 0)), 1L)
  expect_null(ring_comm_split(comm, NULL))
  ring_close(child)
  invalid <- function(expression, message) {
    expect_error(expression, message, class = "ring_error_invalid")
  }
  invalid(ring_comm_split(comm, -1), "`color` is -1")
  invalid(ring_comm_split(comm, "red"), "`color` must be one whole number")
  invalid(ring_comm_split(comm, 1, 0.5), "`key` must be one whole number")
  invalid(ring_comm_split(comm, 1, NULL), "`key` must be")
  invalid(ring_comm_split(1, 1), "`comm` must be a communicator")
  invalid(ring_comm_split(child, 1), "closed")
})
