# SPDX-License-Identifier: Apache-2.0

test_that("groups give what a call for each vector gives, of several types", {
  results <- run_ring(2, {
    xs <- list(a = c(p = rank + 0.5, q = NA), b = matrix(1:4 + rank, 2), c = rank == c(0, 1))
    calls <- list(
      list(ring_allreduce, ring_allreduce_group, ring_allreduce_group_start, op = "max"),
      list(ring_reduce_scatter, ring_reduce_scatter_group, ring_reduce_scatter_group_start),
      list(ring_allgather, ring_allgather_group, ring_allgather_group_start),
      list(ring_broadcast, ring_broadcast_group, ring_broadcast_group_start, root = 1)
    )
    lapply(calls, function(call) {
      given <- call[-(1:3)]
      one <- lapply(xs, function(x) do.call(call[[1]], c(list(comm, x), given)))
      identical(do.call(call[[2]], c(list(comm, xs), given)), one) &&
        identical(ring_wait(do.call(call[[3]], c(list(comm, xs), given))), one)
    })
  })
  for (result in results) expect_identical(result, list(TRUE, TRUE, TRUE, TRUE))
})

test_that("minloc and maxloc return the ranks", {
  results <- run_ring(3, {
    list(
      least = ring_minloc(comm, c(a = rank, b = -rank, c = if (rank == 1) NaN else 0)),
      largest = ring_maxloc(comm, matrix(c(rank, 2L), 1))
    )
  })
  for (result in results) {
    least <- list(x = c(a = 0, b = -2, c = NaN), rank = c(a = 0L, b = 2L, c = 1L))
    expect_identical(result$least, least)
    expect_identical(result$largest, list(x = matrix(2L, 1, 2), rank = matrix(c(2L, 0L), 1)))
  }
})
