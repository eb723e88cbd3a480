# SPDX-License-Identifier: Apache-2.0

skip_on_cran() # counts of memory differ between machines

count_after <- function(code) {
  force(code)
  gc()
  comm_live()
}

test_that("communicators that nobody holds are freed", {
  gc()
  before <- comm_live()
  comm <- ring_init()
  expect_identical(comm_live(), before + 1L)
  ring_close(comm)
  rm(comm)
  expect_identical(count_after(NULL), before)
  expect_identical(count_after(for (i in 1:20) ring_close(ring_init())), before)
  expect_identical(count_after(for (i in 1:5) ring_init()), before)
  expect_identical(
    count_after(for (i in 1:5) try(ring_init(rank = 1, addresses = "a"), silent = TRUE)), before
  )
})

test_that("a dropped open communicator frees its sockets, and the other ranks get an error", {
  skip_if_not(dir.exists("/proc/self/fd"), "there is no /proc/self/fd to count descriptors in")
  results <- run_ranks(2, {
    descriptors <- function() length(dir("/proc/self/fd"))
    if (rank == 1) {
      before <- descriptors()
      comm <- open()
      during <- descriptors()
      rm(comm)
      gc()
      c(before, during, descriptors())
    } else {
      tryCatch(ring_barrier(open(call_timeout = 20)), ring_error_aborted = conditionMessage)
    }
  })
  expect_match(results[[1]], "rank 1 .*dropped it without closing it")
  expect_gt(results[[2]][[2]], results[[2]][[1]])
  expect_identical(results[[2]][[3]], results[[2]][[1]])
})

test_that("results and arguments survive collections in between", {
  results <- run_ring(2, {
    gctorture(TRUE)
    sum <- ring_allreduce(comm, c(a = 1, b = 2))
    avg <- ring_allreduce(comm, c(x = 1L), "avg")
    root <- ring_broadcast(comm, matrix(1:4, 2), root = 1)
    all <- ring_allgather(comm, c(u = rank))
    part <- ring_scatter(comm, matrix(1:4, 2, dimnames = list(NULL, c("p", "q"))))
    uneven <- ring_allgatherv(comm, seq_len(rank))
    mean <- ring_reduce(comm, 1:2, "avg")
    swapped <- ring_alltoallv(comm, c(rank, 5L), c(1, 1))
    error <- tryCatch(ring_allreduce(comm, list()), ring_error = conditionMessage)
    gctorture(FALSE)
    list(sum = sum, avg = avg, root = root, all = all, part = part, uneven = uneven, mean = mean,
      swapped = swapped, error = error)
  })
  for (result in results) {
    expect_identical(result$sum, c(a = 2, b = 4))
    expect_identical(result$avg, c(x = 1))
    expect_identical(result$root, matrix(1:4, 2))
    expect_identical(result$all, 0:1)
    expect_identical(result$uneven, 1L)
    expect_match(result$error, "unlist")
  }
  expect_identical(results[[2]]$part, matrix(3:4, 2, dimnames = list(NULL, "q")))
  expect_identical(results[[1]]$mean, c(1, 2))
  expect_identical(results[[1]]$swapped, 0:1)
})
