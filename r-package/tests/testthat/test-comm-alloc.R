# SPDX-License-Identifier: Apache-2.0

test_that("large results are in shared memory, and equal to those without", {
  code <- quote({
    x <- as.double(seq_len(2e4) + rank)
    comm <- open(shared_memory = shares)
    results <- list(
      sum = ring_allreduce(comm, x), whole = ring_allreduce(comm, as.integer(x), "max"),
      truth = ring_allreduce(comm, x > 100, "lor"), raw = ring_broadcast(comm, raw(1e5), 1),
      all = ring_allgather(comm, matrix(x, 100)), part = ring_scatter(comm, x),
      group = ring_allreduce_group(comm, list(x, c(1, 2))),
      started = ring_wait(ring_reduce_start(comm, x, "max")), small = ring_allreduce(comm, 1)
    )
    ring_close(comm)
    list(results = results, shared = rapply(results, is_shared, how = "unlist"))
  })
  run <- function(shares) eval(bquote(run_ranks(2, .(code), shares = .(shares))))
  with <- run(TRUE)
  without <- run(FALSE)
  for (rank in 1:2) {
    expect_identical(with[[rank]]$results, without[[rank]]$results)
    expect_false(any(without[[rank]]$shared))
  }
  shared <- with[[1]]$shared
  expect_identical(names(shared)[shared], c(
    "sum", "whole", "truth", "raw", "all", "part", "group1", "started"
  ))
})

test_that("results in shared memory outlive the communicator, and are vectors like any other", {
  results <- run_ranks(2, {
    comm <- open()
    x <- ring_allreduce(comm, c(a = 0, double(2e4)))
    m <- ring_allgather(comm, matrix(seq_len(2e4), 2))
    ring_close(comm)
    rm(comm)
    for (i in 1:3) gc()
    shared <- c(is_shared(x), is_shared(m))
    file <- tempfile()
    saveRDS(x, file)
    loaded <- readRDS(file)
    unlink(file)
    copy <- x
    copy[[2]] <- 7
    grown <- x
    grown[[20005]] <- 1
    in_place <- x
    rm(x)
    for (i in 5:9) in_place[[i]] <- i
    list(
      shared = shared, loaded = is_shared(loaded), equal = identical(unname(loaded), double(20001)),
      name = names(loaded)[[1]], copy = c(copy[[2]], in_place[[2]], is_shared(copy)),
      grown = length(grown), sums = c(sum(in_place), sum(m), mean(m[1, , ])), dim = dim(m),
      subset = in_place[4:6], type = c(typeof(m), typeof(in_place))
    )
  })
  for (result in results) {
    expect_identical(result$shared, c(TRUE, TRUE))
    expect_false(result$loaded)
    expect_true(result$equal)
    expect_identical(result$name, "a")
    expect_identical(result$copy, c(7, 0, 0))
    expect_identical(result$grown, 20005L)
    expect_equal(result$sums, c(35, 2 * sum(1:2e4), 1e4))
    expect_identical(result$dim, c(2L, 10000L, 2L))
    expect_equal(unname(result$subset), c(0, 5, 6))
    expect_identical(result$type, c("integer", "double"))
  }
})

test_that("ring_alloc gives zeros that collectives take as they are", {
  results <- run_ring(2, {
    kinds <- lapply(c(double = "double", integer = "integer", logical = "logical", raw = "raw"),
      function(type) ring_alloc(comm, 1e5, type))
    x <- kinds$double
    kinds$double <- NULL
    for (i in 1:10) x[(i - 1) * 1e4 + 1:1e4] <- i + rank
    filled <- is_shared(x)
    sum <- ring_allreduce(comm, x)
    sum <- ring_allreduce(comm, sum, "max")
    list(
      no_memory = tryCatch(ring_alloc(comm, 2^52), ring_error_no_memory = conditionMessage),
      shared = vapply(kinds, is_shared, NA), zero = vapply(kinds, function(x) !any(x > 0), NA),
      types = vapply(kinds, typeof, ""), filled = filled, sum = sum[c(1, 1e5)],
      small = is_shared(ring_alloc(comm, 10)), none = ring_alloc(comm, 0, "integer")
    )
  })
  for (result in results) {
    expect_match(result$no_memory, "no memory for a vector of 36028797018963968 bytes")
    expect_true(all(result$shared))
    expect_true(all(result$zero))
    expect_identical(unname(result$types), c("integer", "logical", "raw"))
    expect_true(result$filled)
    expect_identical(result$sum, c(3, 21))
    expect_false(result$small)
    expect_identical(result$none, integer())
  }
})

test_that("a world of one has ordinary vectors, and bad arguments are errors that name them", {
  comm <- local_world()
  expect_identical(ring_alloc(comm, 1e5), double(1e5))
  expect_false(is_shared(ring_alloc(comm, 1e5)))
  invalid <- function(expression, message) {
    expect_error(expression, message, class = "ring_error_invalid")
  }
  invalid(ring_alloc(comm, -1), "`length` must be one whole number, 0 or more, not -1")
  invalid(ring_alloc(comm, NA), "`length` must be")
  invalid(ring_alloc(comm, 1, "character"), "`type` must be one of \"double\".*not \"character\"")
  invalid(ring_init(shared_memory = NA), "`shared_memory` must be TRUE or FALSE")
})

test_that("memory that R has dropped is used again", {
  skip_if_not(file.exists("/proc/self/smaps_rollup"), "no file shows the memory of the process")
  results <- run_ring(2, {
    resident_kb <- function() {
      lines <- readLines("/proc/self/smaps_rollup")
      as.double(sub("[^0-9]*([0-9]+).*", "\\1", grep("^Rss", lines, value = TRUE)))
    }
    x <- double(1e6)
    for (i in 1:40) ring_allreduce(comm, x)
    before <- resident_kb()
    for (i in 1:200) ring_allreduce(comm, x)
    resident_kb() - before
  })
  for (grown in results) expect_lt(grown, 300e3) # of 1600 MB
  results <- run_ring(2, {
    resident_kb <- function() {
      lines <- readLines("/proc/self/smaps_rollup")
      as.double(sub("[^0-9]*([0-9]+).*", "\\1", grep("^Rss", lines, value = TRUE)))
    }
    x <- double(2^13)
    before <- resident_kb()
    for (i in 1:3000) ring_allreduce(comm, x)
    resident_kb() - before
  })
  for (grown in results) expect_lt(grown, 120e3) # of 197 MB here, and as much of the other rank
})

test_that("what a forked child collects, its parent still has", {
  # More than the core keeps of what is free: beyond that it gives pages back to the system.
  results <- run_ring(2, {
    xs <- if (rank == 0) lapply(1:4, function(i) ring_alloc(comm, 1e8, "raw"))
    for (i in seq_along(xs)) xs[[i]][seq(1, 1e8, by = 4096)] <- as.raw(i)
    shared <- vapply(xs, is_shared, NA)
    job <- parallel::mcparallel({
      rm(xs)
      for (j in 1:2) gc()
      TRUE
    })
    collected <- parallel::mccollect(job)[[1]]
    list(collected, shared, vapply(xs, function(x) c(x[[1]], x[[4096 * 20000 + 1]]), raw(2)))
  })
  expect_identical(results[[1]], list(TRUE, rep(TRUE, 4), matrix(rep(as.raw(1:4), each = 2), 2)))
})

test_that("a parent and its forked children may collect what they share at the same time", {
  results <- run_ring(2, {
    x <- ring_allreduce(comm, as.double(1:3e6))
    y <- ring_allreduce(comm, as.double(1:3e6))
    work <- function(i) {
      rm(y, envir = parent.env(environment()))
      for (j in 1:3) gc()
      sum(x) + i
    }
    children <- parallel::mclapply(1:2, work, mc.cores = 2)
    for (j in 1:3) gc()
    more <- ring_allreduce(comm, as.double(1:3e6))
    c(unlist(children), sum(x), sum(y), sum(more))
  })
  expected <- sum(as.double(1:3e6)) * 2
  for (result in results) expect_identical(result, expected + c(1, 2, 0, 0, 0))
})

test_that("shared results survive collections in between", {
  results <- run_ring(2, {
    gctorture2(20)
    x <- ring_allreduce(comm, double(1e4) + 1)
    y <- ring_allgather_start(comm, x)
    z <- ring_alloc(comm, 1e4)
    z[] <- 3
    y <- ring_wait(y)
    gctorture2(0)
    list(is_shared(x), range(x), is_shared(y), dim(y), range(y), is_shared(z), range(z))
  })
  for (result in results) {
    expect_identical(result, list(TRUE, c(2, 2), TRUE, c(10000L, 2L), c(2, 2), TRUE, c(3, 3)))
  }
})
