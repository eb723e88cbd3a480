# SPDX-License-Identifier: Apache-2.0

test_that("the living ranks go on, with their memory", {
  results <- run_ranks(4, {
    comm <- open()
    kept <- ring_allreduce(comm, rank)
    if (rank == 1) tools::pskill(Sys.getpid(), tools::SIGKILL)
    repeat {
      lost <- tryCatch(ring_barrier(comm), ring_error = identity)
      if (inherits(lost, "ring_error")) break
    }
    shrunk <- ring_shrink(comm)
    result <- list(
      kept = kept, lost = inherits(lost, c("ring_error_peer_lost", "ring_error_aborted")),
      place = c(ring_rank(shrunk), ring_size(shrunk)), all = ring_allgather(shrunk, rank),
      old = format(comm), again = tryCatch(ring_shrink(comm), ring_error = class)[1]
    )
    ring_close(shrunk)
    ring_close(comm) # does nothing
    result
  }, lost = 1)
  for (rank in c(0, 2, 3)) {
    result <- results[[rank + 1]]
    expect_identical(result$kept, 6L)
    expect_true(result$lost)
    expect_identical(result$place, c(match(rank, c(0, 2, 3)) - 1L, 3L))
    expect_identical(result$all, c(0L, 2L, 3L))
    expect_match(result$old, "closed$")
    expect_identical(result$again, "ring_error_invalid")
  }
})

test_that("children of a shrunken communicator end, and a rank that closes is not awaited", {
  results <- run_ranks(3, {
    comm <- open()
    child <- ring_comm_split(comm, 0)
    if (rank == 2) {
      ring_barrier(comm)
      ring_abort(comm, "it leaves")
      return(NULL)
    }
    repeat if (inherits(tryCatch(ring_barrier(comm), ring_error = identity), "ring_error")) break
    shrunk <- ring_shrink(comm, timeout = 60)
    error <- tryCatch(ring_allreduce(child, 1), ring_error = identity)
    sum <- ring_allreduce(shrunk, 1)
    ring_close(shrunk)
    list(sum = sum, error = conditionMessage(error))
  }, lost = 2)
  for (result in results[1:2]) {
    expect_identical(result$sum, 2)
    expect_match(result$error, "has shrunk the communicator|lost|aborted")
  }
})

test_that("arguments are checked", {
  comm <- ring_init(rank = 0, size = 1, addresses = "127.0.0.1", token = fresh_token())
  expect_error(ring_shrink(), "comm", class = "ring_error_invalid")
  expect_error(ring_shrink(1), "communicator", class = "ring_error_invalid")
  expect_error(ring_shrink(comm, timeout = "1"), "timeout", class = "ring_error_invalid")
  alone <- ring_shrink(comm)
  expect_identical(ring_allreduce(alone, 2), 2)
  ring_close(alone)
})
