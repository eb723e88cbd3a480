# SPDX-License-Identifier: Apache-2.0

test_that("allgatherv, gatherv and scatterv take parts of any length", {
  for (size in 1:4) {
    agreed <- run_ring(size, {
      ranks <- seq_len(size) - 1L
      check <- function(name, counts) {
        xs <- Map(function(rank, count) cases_of(rank, count)[[name]], ranks, counts)
        x <- xs[[rank + 1L]]
        all <- concatenated(xs)
        on_root <- function(root) {
          given <- if (rank == root) all else all[0]
          if (!is.null(dim(all)) && rank != root) given <- steps(all, 0L)
          gathered <- identical(ring_gatherv(comm, x, root), if (rank == root) all)
          gathered && identical(ring_scatterv(comm, given, vapply(xs, extent, 1), root), x)
        }
        identical(ring_allgatherv(comm, x), all) && all(vapply(ranks, on_root, NA))
      }
      uneven <- c(vapply(names(cases_of(0L, 1L)), check, NA, (ranks * 2L) %% 3L))
      c(uneven, vapply(names(cases_of(0L, 1L)), check, NA, rev(ranks)))
    }, cases_of = cases_of, steps = steps, concatenated = concatenated)
    for (each in agreed) expect_identical(names(each)[!each], character())
  }
})

test_that("a rank that does not know the counts receives them", {
  results <- run_ring(2, {
    x <- double(2)
    calls <- function(call) {
      before <- ring_counters(comm)$calls
      force(call)
      ring_counters(comm)$calls - before
    }
    c(
      calls(ring_scatterv(comm, x, c(1, 1))), calls(ring_allgatherv(comm, x)),
      calls(ring_gatherv(comm, x)), calls(ring_alltoallv(comm, x, c(1, 1)))
    )
  })
  expect_identical(results, list(c(1, 2, 2, 2), c(1, 2, 2, 2)))
})

test_that("alltoallv exchanges parts of any length", {
  for (size in 1:4) {
    agreed <- run_ring(size, {
      ranks <- seq_len(size) - 1L
      sends <- outer(ranks, ranks, function(from, to) (from * 2L + to) %% 4L)
      check <- function(name) {
        xs <- lapply(ranks, function(rank) cases_of(rank, sum(sends[rank + 1L, ]))[[name]])
        if (name %in% c("none", "nothing")) sends[] <- 0L
        parts <- lapply(ranks, function(from) {
          counts <- sends[from + 1L, ]
          before <- sum(counts[seq_len(rank)])
          steps(xs[[from + 1L]], before + seq_len(counts[[rank + 1L]]))
        })
        identical(ring_alltoallv(comm, xs[[rank + 1L]], sends[rank + 1L, ]), concatenated(parts))
      }
      vapply(names(cases_of(0L, 1L)), check, NA)
    }, cases_of = cases_of, steps = steps, concatenated = concatenated)
    for (each in agreed) expect_identical(names(each)[!each], character())
  }
})

test_that("alltoallv returns the counts that it has received", {
  results <- run_ring(2, {
    x <- as.double(1:3) + 10 * rank
    counts <- if (rank == 0) c(1, 2) else c(3, 0)
    list(
      now = ring_alltoallv(comm, x, counts, return_counts = TRUE),
      later = ring_wait(ring_alltoallv_start(comm, x, counts, return_counts = TRUE))
    )
  })
  expect_identical(results[[1]]$now, list(x = c(1, 11, 12, 13), counts = c(1, 3)))
  expect_identical(results[[2]]$now, list(x = c(2, 3), counts = c(2, 0)))
  expect_identical(results[[1]]$later, results[[1]]$now)
})

test_that("uneven parts lose the names of the last dimension only", {
  comm <- local_world()
  labelled <- matrix(1:4, 2, dimnames = list(row = c("u", "v"), c("p", "q")))
  expected <- matrix(1:4, 2, dimnames = list(row = c("u", "v"), NULL))
  expect_identical(ring_allgatherv(comm, labelled), expected)
  expect_identical(ring_scatterv(comm, labelled, 2), expected)
  expect_identical(ring_alltoallv(comm, unname(labelled), 2L), matrix(1:4, 2))
  expect_identical(ring_gatherv(comm, c(a = 1, b = NA)), c(1, NA))
  expect_identical(ring_gatherv(comm, matrix(1, 1, 1, dimnames = list(NULL, "x"))), matrix(1))
})

test_that("parts that do not add up are errors, and the communicator goes on", {
  results <- run_ring(2, {
    text <- function(code) tryCatch(code, ring_error_invalid = conditionMessage)
    list(
      equal = c(
        text(ring_scatter(comm, 1:3)), text(ring_reduce_scatter(comm, 1:3)),
        text(ring_alltoall(comm, 1:3))
      ),
      matrix = text(ring_alltoall(comm, matrix(1:6, 2))),
      length = text(ring_alltoallv(comm, 1:3, 3)),
      negative = text(ring_scatterv(comm, 1:3, c(4, -1))),
      sum = text(ring_alltoallv(comm, 1:3, c(1, 1))),
      columns = text(ring_alltoallv(comm, matrix(1:6, 2), c(3, 3))),
      root = if (rank == 0) text(ring_scatterv(comm, 1:3, c(1, 1))),
      memory = text(ring_scatterv(comm, 1:3, c(2^52, 1))),
      type = c(
        text(ring_scatterv(comm, 1:3, c(1.5, 1.5))), text(ring_alltoallv(comm, 1:3, c(NA, 1))),
        text(ring_alltoallv(comm, 1:3, "3")), text(ring_scatterv(comm, 1:3, NULL))
      ),
      missing = c(text(ring_reduce(comm, NA)), text(ring_reduce_scatter(comm, c(1L, NA)))),
      lists = c(
        text(ring_reduce(comm, list())), text(ring_reduce_scatter(comm, list())),
        text(ring_gather(comm, list())), text(ring_allgatherv(comm, list())),
        text(ring_gatherv(comm, list())), text(ring_scatter(comm, list())),
        text(ring_scatterv(comm, list(), c(0, 0))), text(ring_alltoall(comm, list())),
        text(ring_alltoallv(comm, list(), c(0, 0))), text(ring_send(comm, list(), 1 - rank)),
        text(ring_recv(comm, list(), 1 - rank))
      ),
      after = ring_allreduce(comm, 1)
    )
  })
  for (result in results) {
    expect_match(result$equal, "length of `x` is 3, which 2 ranks cannot share equally: pass a mul")
    expect_match(result$matrix, "the last dimension of `x` is 3, which 2 ranks cannot share")
    expect_match(result$length, "`counts` has 1 numbers and there are 2 ranks: pass one for each")
    expect_match(result$negative, "`counts\\[\\[2\\]\\]` is -1: it must be 0 or more")
    expect_match(result$sum, "`counts` add up to 2 and the length of `x` is 3: they must be equal")
    expect_match(result$columns, "add up to 6 and the last dimension of `x` is 3")
    expect_match(result$memory, "longer than R allows")
    expect_match(result$type, "`counts` must be whole numbers, one for each rank, not")
    expect_match(result$missing, "NA.*as.double\\(\\)")
    expect_match(result$lists, "is a list: unlist\\(\\) it")
    expect_identical(result$after, 2)
  }
  expect_match(results[[1]]$root, "`counts` add up to 2 and the length of `x` is 3")
})

test_that("matrices that are put together have the same number of rows", {
  results <- run_ranks(2, {
    comm <- open(call_timeout = 20)
    tryCatch({
      ring_allgatherv(comm, matrix(0, 3 + rank, 2))
      ring_barrier(comm)
    }, ring_error = function(error) class(error)[[1]])
  })
  expect_identical(results, list("ring_error_mismatch", "ring_error_mismatch"))
})
