# SPDX-License-Identifier: Apache-2.0

# What rank 1, which comes late, learns of an abort. It makes the call that rank 0 has started.
be_failed <- function(comm) {
  tryCatch(repeat ring_broadcast(comm, double(10), root = 1), ring_error_aborted = conditionMessage)
}

test_that("started collectives give what the blocking ones give", {
  results <- run_ring(3, {
    x <- c(a = rank + 0.5, b = 2, c = NA)
    blocks <- matrix(1:6 + rank, 2, dimnames = list(c("u", "v"), c("p", "q", "r")))
    calls <- list(
      allreduce = list(ring_allreduce, ring_allreduce_start, x),
      average = list(ring_allreduce, ring_allreduce_start, blocks, "avg"),
      any = list(ring_allreduce, ring_allreduce_start, c(TRUE, rank == 1), "lor"),
      group = list(ring_allreduce_group, ring_allreduce_group_start, list(w = blocks, 4:1)),
      reduce = list(ring_reduce, ring_reduce_start, x, "max", root = 1),
      reduce_scatter = list(ring_reduce_scatter, ring_reduce_scatter_start, blocks),
      reduce_scatterv = list(ring_reduce_scatterv, ring_reduce_scatterv_start, blocks, c(1, 0, 2)),
      scan = list(ring_scan, ring_scan_start, x),
      exscan = list(ring_exscan, ring_exscan_start, blocks, "max"),
      broadcast = list(ring_broadcast, ring_broadcast_start, c(NA, rank > 1), root = 2),
      allgather = list(ring_allgather, ring_allgather_start, blocks),
      number = list(ring_allgather, ring_allgather_start, rank),
      allgatherv = list(ring_allgatherv, ring_allgatherv_start, matrix(1:(6 * rank + 6), 2)),
      gather = list(ring_gather, ring_gather_start, x, root = 1),
      gatherv = list(ring_gatherv, ring_gatherv_start, seq_len(rank), root = 2),
      scatter = list(ring_scatter, ring_scatter_start, blocks, root = 1),
      scatterv = list(ring_scatterv, ring_scatterv_start, blocks, c(2, 1, 0)),
      alltoall = list(ring_alltoall, ring_alltoall_start, x),
      alltoallv = list(ring_alltoallv, ring_alltoallv_start, blocks, c(0, 1, 2)),
      barrier = list(ring_barrier, ring_barrier_start)
    )
    blocking <- lapply(calls, function(call) do.call(call[[1]], c(list(comm), call[-(1:2)])))
    requests <- lapply(calls, function(call) do.call(call[[2]], c(list(comm), call[-(1:2)])))
    started <- lapply(requests, ring_wait)
    list(
      blocking = blocking, started = started, again = lapply(requests, ring_wait),
      classes = unique(lapply(requests, class))
    )
  })
  for (result in results) {
    expect_identical(result$started, result$blocking)
    expect_identical(result$again, result$blocking)
    expect_identical(result$classes, list("ring_request"))
  }
  expect_identical(results[[1]]$started$any, c(TRUE, TRUE))
  expect_identical(results[[2]]$started$reduce[["a"]], 2.5)
})

test_that("many requests are outstanding, and waited for in any order", {
  results <- run_ring(2, {
    requests <- lapply(1:50, function(i) ring_allreduce_start(comm, rep(i + rank, 2^(i %% 14))))
    between <- ring_allreduce(comm, 1)
    order <- if (rank == 0) 50:1 else 1:50
    sums <- double(50)
    for (i in order) sums[[i]] <- unique(ring_wait(requests[[i]]))
    list(sums = sums, between = between)
  })
  for (result in results) {
    expect_identical(result$sums, 2 * (1:50) + 1)
    expect_identical(result$between, 2)
  }
})

test_that("ring_test() returns whether a request is done", {
  results <- run_ring(2, {
    if (rank == 1) {
      ring_broadcast(comm, 0L)
      return_value <- ring_wait(ring_allreduce_start(comm, 3))
      list(return_value)
    } else {
      request <- ring_broadcast_start(comm, 1L)
      ring_wait(request)
      sum <- ring_allreduce_start(comm, 4)
      while (!ring_test(sum)) Sys.sleep(0.01)
      list(ring_wait(sum), capture.output(print(sum)), format(request))
    }
  })
  expect_identical(results[[2]], list(7))
  expect_identical(results[[1]], list(
    7, "<ring_request> ring_allreduce, done", "<ring_request> ring_broadcast, done"
  ))
})

test_that("one that waits for another rank is under way", {
  file <- tempfile("asked")
  results <- run_ring(2, {
    if (rank == 0) {
      request <- ring_broadcast_start(comm, double(2), root = 1)
      early <- list(ring_test(request), format(request))
      file.create(file)
      list(early, ring_wait(request))
    } else {
      wait_for_file(file)
      ring_broadcast(comm, c(1, 2), root = 1)
    }
  }, file = file, wait_for_file = wait_for_file)
  unlink(file)
  early <- list(FALSE, "<ring_request> ring_broadcast, under way")
  expect_identical(results[[1]], list(early, c(1, 2)))
})

test_that("what was passed may be changed and dropped meanwhile", {
  results <- run_ring(2, {
    x <- as.double(1:1e5)
    request <- ring_allreduce_start(comm, x)
    x[] <- -1
    parts <- list(a = x, b = c(1, 2))
    group <- ring_allreduce_group_start(comm, parts)
    parts$a[] <- 5
    rm(parts)
    dropped <- ring_allreduce_start(comm, runif(1e5), "max")
    gc()
    sum <- ring_wait(request)
    sum[[1]] <- 0
    list(
      first = ring_wait(request), changed = range(x), group = ring_wait(group),
      most = max(ring_wait(dropped)) <= 1
    )
  })
  for (result in results) {
    expect_identical(result$first, 2 * as.double(1:1e5))
    expect_identical(result$changed, c(-1, -1))
    expect_identical(result$group, list(a = rep(-2, 1e5), b = c(2, 4)))
    expect_true(result$most)
  }
})

test_that("requests that are dropped go on, and are freed", {
  file <- tempfile("dropped")
  results <- run_ring(2, {
    for (i in 1:20) ring_allreduce_start(comm, double(1e4) + i)
    sum <- ring_wait(ring_allreduce_start(comm, 1))
    gc()
    before <- request_live()
    if (rank == 0) {
      ring_broadcast_start(comm, double(1e5), root = 1)
      gc()
      during <- request_live()
      file.create(file)
    } else {
      during <- 1L
      wait_for_file(file)
      ring_broadcast(comm, double(1e5), root = 1)
    }
    ring_barrier(comm)
    last <- ring_barrier_start(comm)
    list(sum = sum, before = before, during = during, after = request_live())
  }, file = file, wait_for_file = wait_for_file)
  unlink(file)
  for (result in results) {
    expect_identical(result, list(sum = 2, before = 0L, during = 1L, after = 1L))
  }
})

test_that("a communicator that is dropped with its requests ends them", {
  file <- tempfile("dropped")
  results <- run_ranks(2, {
    comm <- open(call_timeout = 20)
    if (rank == 0) {
      request <- ring_broadcast_start(comm, double(10), root = 1)
      ring_broadcast_start(comm, double(10), root = 1)
      gc()
      rm(comm, request)
      for (i in 1:2) gc()
      file.create(file)
      c(comm_live(), request_live())
    } else {
      wait_for_file(file)
      be_failed(comm)
    }
  }, file = file, wait_for_file = wait_for_file, be_failed = be_failed)
  unlink(file)
  expect_identical(results[[1]], c(0L, 0L))
  expect_match(results[[2]], "dropped it without closing it")
})

test_that("a failure is reported by every outstanding request, and by later ones", {
  results <- run_ranks(2, {
    comm <- open()
    started <- ring_comm_split(comm, 0L)
    if (rank == 0) {
      first <- ring_broadcast_start(comm, double(10), root = 1)
      second <- ring_allreduce_start(comm, 1)
      ring_barrier(started)
      errors <- lapply(list(first, second, second), function(request) {
        tryCatch(ring_wait(request), ring_error = identity)
      })
      errors[[4]] <- tryCatch(ring_test(first), ring_error = identity)
      errors[[5]] <- tryCatch(ring_allreduce_start(comm, 1), ring_error = identity)
      list(errors = errors, shown = format(first), call = conditionCall(errors[[4]]))
    } else {
      ring_barrier(started)
      ring_abort(comm, "enough of this")
    }
  })
  for (error in results[[1]]$errors) {
    expect_s3_class(error, "ring_error_aborted")
    expect_match(conditionMessage(error), "enough of this")
  }
  expect_identical(results[[1]]$shown, "<ring_request> ring_broadcast, failed")
  expect_identical(results[[1]]$call, quote(ring_test(first)))
})

test_that("close waits for what is outstanding, and results can be had after it", {
  results <- run_ranks(2, {
    comm <- open()
    requests <- lapply(1:3, function(i) ring_allreduce_start(comm, double(1e5) + i))
    ring_close(comm)
    done <- vapply(requests, ring_test, NA)
    rm(comm)
    gc()
    sums <- vapply(requests, function(request) range(ring_wait(request)), double(2))
    rm(requests)
    gc()
    list(done = done, sums = sums, live = c(comm_live(), request_live()))
  })
  for (result in results) {
    expect_identical(result$done, rep(TRUE, 3))
    expect_identical(result$sums, matrix(2 * rep(1:3, each = 2), 2))
    expect_identical(result$live, c(0L, 0L))
  }
})

test_that("an abort ends the requests of this rank", {
  file <- tempfile("aborted")
  results <- run_ranks(2, {
    comm <- open()
    if (rank == 0) {
      request <- ring_broadcast_start(comm, double(10), root = 1)
      ring_abort(comm, "no more")
      file.create(file)
      tryCatch(ring_wait(request), ring_error_aborted = conditionMessage)
    } else {
      wait_for_file(file)
      be_failed(comm)
    }
  }, file = file, wait_for_file = wait_for_file, be_failed = be_failed)
  unlink(file)
  for (message in results) expect_match(message, "no more")
})

test_that("an interrupt ends a wait, and all ranks learn it", {
  file <- tempfile("interrupted")
  results <- run_ranks(2, {
    comm <- open()
    if (rank == 0) {
      ring_send(comm, Sys.getpid(), 1)
      request <- ring_broadcast_start(comm, double(10), root = 1)
      limited <- tryCatch(ring_wait(request), interrupt = class)
      file.create(file)
      after <- tryCatch(ring_wait(request), ring_error = identity)
      list(limited, class(after)[[1]], conditionMessage(after), format(comm))
    } else {
      tools::pskill(ring_recv(comm, 0L, 0), tools::SIGINT)
      wait_for_file(file)
      be_failed(comm)
    }
  }, file = file, wait_for_file = wait_for_file, be_failed = be_failed)
  unlink(file)
  expect_identical(results[[1]][[1]], c("interrupt", "condition"))
  expect_identical(results[[1]][[2]], "ring_error_aborted")
  expect_match(results[[1]][[3]], "rank 0 was interrupted")
  expect_match(results[[1]][[4]], "broken$")
  expect_match(results[[2]], "interrupted")
})

test_that("a time limit of R ends a wait", {
  file <- tempfile("limited")
  results <- run_ranks(2, {
    comm <- open()
    limited <- function(request) {
      setTimeLimit(elapsed = 0.3)
      on.exit(setTimeLimit())
      ring_wait(request)
    }
    if (rank == 0) {
      request <- ring_broadcast_start(comm, double(10), root = 1)
      message <- tryCatch(limited(request), error = conditionMessage)
      file.create(file)
      message
    } else {
      wait_for_file(file)
      be_failed(comm)
    }
  }, file = file, wait_for_file = wait_for_file, be_failed = be_failed)
  unlink(file)
  expect_match(results[[1]], "time limit")
  expect_match(results[[2]], "interrupted")
})

test_that("bad arguments are errors of the start", {
  comm <- local_world()
  invalid <- function(expression, message) {
    expect_error(expression, message, class = "ring_error_invalid")
  }
  gc() # those of other tests
  live <- request_live()
  invalid(ring_allreduce_start(comm, list()), "unlist")
  invalid(ring_allreduce_start(comm, NULL), "is NULL")
  invalid(ring_broadcast_start(comm, 1, root = 3), "root 3")
  invalid(ring_reduce_start(comm, 1, root = "a"), "`root` must be")
  invalid(ring_scatterv_start(comm, 1:3, 2), "add up to 2")
  invalid(ring_wait(1), "`request` must be a request")
  invalid(ring_wait(comm), "`request` must be a request")
  invalid(ring_test(NULL), "`request` must be a request")
  call <- tryCatch(ring_allreduce_start(comm, list()), ring_error = conditionCall)
  expect_identical(call, quote(ring_allreduce_start(comm, list())))
  gc()
  expect_identical(request_live(), live)
})

test_that("a request does not survive a file or a fork", {
  comm <- local_world()
  request <- ring_allreduce_start(comm, 2)
  expect_identical(ring_wait(request), 2)
  loaded <- unserialize(serialize(request, NULL))
  expect_error(ring_wait(loaded), "saved and loaded", class = "ring_error_invalid")
  job <- parallel::mcparallel(tryCatch(ring_wait(request), ring_error = conditionMessage))
  result <- parallel::mccollect(job)[[1]]
  expect_match(result, "forked")
})

test_that("requests survive collections in between", {
  results <- run_ring(2, {
    gctorture(TRUE)
    sum <- ring_allreduce_start(comm, c(a = 1, b = 2))
    mean <- ring_allreduce_start(comm, 1:3, "avg")
    all <- ring_allgather_start(comm, c(u = rank, v = 2L))
    group <- ring_allreduce_group_start(comm, list(x = 1:2, matrix(3:6, 2)))
    results <- list(ring_wait(all), ring_wait(sum), ring_wait(mean), ring_wait(group))
    gctorture(FALSE)
    results
  })
  for (result in results) {
    expect_identical(result[[1]], matrix(c(0L, 2L, 1L, 2L), 2, dimnames = list(c("u", "v"), NULL)))
    expect_identical(result[[2]], c(a = 2, b = 4))
    expect_identical(result[[3]], c(1, 2, 3))
    expect_identical(result[[4]], list(x = c(2L, 4L), matrix(c(6L, 8L, 10L, 12L), 2)))
  }
})

test_that("a group is one allreduce of each", {
  results <- run_ring(3, {
    xs <- list(
      bias = c(a = 1.5, b = rank), weights = matrix(rank + 1:6 / 2, 2), 7, empty = double(),
      large = seq_len(1e5) / 3 + rank
    )
    truths <- list(c(TRUE, rank == 0), 3L)
    list(
      group = ring_allreduce_group(comm, xs),
      each = lapply(xs, function(x) ring_allreduce(comm, x)),
      avg = ring_allreduce_group(comm, list(1:2, TRUE, 4), "avg"),
      truths = ring_allreduce_group(comm, truths, "land"),
      raws = ring_allreduce_group(comm, list(as.raw(1), as.raw(2:3))),
      none = ring_allreduce_group(comm, list())
    )
  })
  for (result in results) {
    expect_equal(result$group, result$each)
    expect_identical(result$group, results[[1]]$group)
    expect_identical(result$avg, list(c(1, 2), 1, 4))
    expect_identical(result$truths, list(c(TRUE, FALSE), TRUE))
    expect_identical(result$raws, list(as.raw(3), as.raw(c(6, 9))))
    expect_identical(result$none, list())
  }
})

test_that("bad groups are errors that name the vector", {
  comm <- local_world()
  invalid <- function(expression, message) {
    expect_error(expression, message, class = "ring_error_invalid")
  }
  invalid(ring_allreduce_group(comm, 1), "`xs` must be a list")
  invalid(ring_allreduce_group(comm, list(1, "a")), "`xs\\[\\[2\\]\\]` is a character vector")
  invalid(ring_allreduce_group(comm, list(1L, NA)), "`xs\\[\\[2\\]\\]` is logical .* NA")
  invalid(ring_allreduce_group(comm, list(1), "land"), "not for double")
  invalid(ring_allreduce_group(comm, list(), "median"), "median")
})

test_that("ranks whose groups differ get an error", {
  results <- run_ranks(2, {
    comm <- open()
    xs <- if (rank == 0) list(double(2), double(3)) else list(double(3), double(2))
    tryCatch(ring_allreduce_group(comm, xs), ring_error = class)
  })
  for (result in results) expect_identical(result[[1]], "ring_error_mismatch")
})
