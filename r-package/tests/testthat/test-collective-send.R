# SPDX-License-Identifier: Apache-2.0

test_that("messages go to one rank, in order", {
  for (size in 2:4) {
    agreed <- run_ring(size, {
      after <- (rank + 1L) %% size
      before <- (rank - 1L) %% size
      pass <- function(mine, theirs) {
        if (rank %% 2L == 0L) ring_send(comm, mine, after)
        came <- ring_recv(comm, mine, before)
        if (rank %% 2L == 1L) ring_send(comm, mine, after)
        identical(came, theirs)
      }
      passed <- unlist(Map(pass, cases_of(rank, 5L), cases_of(before, 5L)))
      for (turn in 1:3) ring_send(comm, turn, after)
      turns <- vapply(1:3, function(turn) ring_recv(comm, 0L, before), 1L)
      named <- if (rank == 0L) ring_send(comm, c(TRUE, NA), 1L)
      if (rank == 1L) named <- ring_recv(comm, c(a = TRUE, b = TRUE), 0L)
      large <- if (rank == 0L) ring_send(comm, as.double(1:3e5), 1L)
      if (rank == 1L) large <- identical(ring_recv(comm, double(3e5), 0L), as.double(1:3e5))
      list(passed = passed, turns = turns, named = named, large = large)
    }, cases_of = cases_of)
    for (each in agreed) {
      expect_identical(names(each$passed)[!each$passed], character())
      expect_identical(each$turns, 1:3)
    }
    expect_null(agreed[[1]]$named)
    expect_identical(agreed[[2]]$named, c(a = TRUE, b = NA))
    expect_true(agreed[[2]]$large)
  }
})

test_that("peers and roots that are no rank are errors, and the communicator goes on", {
  results <- run_ring(2, {
    text <- function(code) tryCatch(code, ring_error_invalid = conditionMessage)
    messages <- c(
      text(ring_send(comm, 1, 2)), text(ring_recv(comm, 1, 2)),
      text(ring_reduce(comm, 1, root = 2)), text(ring_gather(comm, 1, 2)),
      text(ring_gatherv(comm, 1, 2)), text(ring_scatter(comm, 1:2, 2)),
      text(ring_scatterv(comm, 1:2, c(1, 1), 2))
    )
    own <- c(text(ring_send(comm, 1, rank)), text(ring_recv(comm, 1, rank)))
    list(messages = messages, own = own, sum = ring_allreduce(comm, 1))
  })
  for (result in results) {
    expect_match(result$messages[1:2], "peer 2 is no rank: ranks go from 0 to 1")
    expect_match(result$messages[3:7], "root 2 is no rank: ranks go from 0 to 1")
    expect_match(result$own, "peer is this rank itself: copy")
    expect_identical(result$sum, 2)
  }
  comm <- local_world()
  negative <- list(
    quote(ring_send(comm, 1, -1)), quote(ring_recv(comm, 1, -1)),
    quote(ring_reduce(comm, 1, root = -1)), quote(ring_gatherv(comm, 1, -1)),
    quote(ring_scatterv(comm, 1, 1, -1))
  )
  for (call in negative) {
    error <- tryCatch(eval(call), ring_error_invalid = identity)
    expect_match(conditionMessage(error), "is -1: it must be 0 or more")
    expect_identical(conditionCall(error), call)
  }
})
