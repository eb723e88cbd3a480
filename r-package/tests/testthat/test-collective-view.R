# SPDX-License-Identifier: Apache-2.0

test_that("dimensions, names and dimnames survive, and other attributes do not", {
  comm <- local_world()
  named <- c(a = 1, b = 2)
  array <- array(1:24, 2:4, list(letters[1:2], NULL, row = LETTERS[1:4]))
  table <- array(1:2, 2, list(c("x", "y")))
  others <- list(matrix(TRUE, 1, 1), c(p = as.raw(1)), double(), array(0, c(2, 0)))
  for (x in c(list(named, array, table), others)) {
    expect_identical(ring_broadcast(comm, x), x)
    expect_identical(attributes(ring_allreduce(comm, x, "max")), attributes(x))
  }
  expect_identical(ring_broadcast(comm, structure(1, note = "gone")), 1)
})

test_that("compact vectors of R go in as they are", {
  comm <- local_world()
  expect_identical(ring_allreduce(comm, 1:10), 1:10)
  expect_identical(ring_broadcast(comm, as.double(1:5)), c(1, 2, 3, 4, 5))
  expect_identical(ring_allgather(comm, sort(c(3, 1, 2))), matrix(c(1, 2, 3)))
})

test_that("the argument is never modified", {
  results <- run_ring(2, {
    x <- c(1, 2) + rank
    same <- x
    ring_allreduce(comm, x)
    ring_broadcast(comm, x, root = 1)
    ring_allgather(comm, x)
    ring_alltoall(comm, x)
    ring_reduce_scatter(comm, x)
    ring_scatterv(comm, x, c(1, 1), root = 1)
    identical(same, c(1, 2) + rank)
  })
  expect_identical(results, list(TRUE, TRUE))
})

test_that("NA in doubles goes through every op", {
  results <- run_ring(2, {
    x <- if (rank == 0) c(NA, 1, 1) else c(1, NaN, 1)
    lapply(c("sum", "prod", "min", "max", "avg"), function(op) ring_allreduce(comm, x, op))
  })
  for (result in results) {
    for (x in result) expect_identical(is.na(x), c(TRUE, TRUE, FALSE))
  }
})

test_that("NA in integers and logicals is an error before anything is sent", {
  results <- run_ring(2, {
    refuse <- function(x) tryCatch(ring_allreduce(comm, x), ring_error_invalid = conditionMessage)
    refused <- if (rank == 0) c(refuse(c(1L, 2L, NA)), refuse(c(NA, TRUE)))
    # Rank 1 has received nothing of the call, and the ring is whole.
    sum <- ring_allreduce(comm, 1L)
    list(refused = refused, sum = sum, avg = ring_allreduce(comm, c(NA, 1L), "avg"))
  })
  expect_match(results[[1]]$refused[[1]], "`x` is integer and element 3 is NA.*as.double\\(\\)")
  expect_match(results[[1]]$refused[[2]], "`x` is logical and element 1 is NA.*as.double\\(\\)")
  expect_identical(results[[2]]$sum, 2L)
  expect_identical(results[[2]]$avg, c(NA, 1))
})

test_that("what cannot go in is refused with advice", {
  comm <- local_world()
  refused <- list(
    "is a list: unlist\\(\\) it" = list(1, 2),
    "is a factor: call as.integer\\(\\)" = factor("a"),
    "is a data frame: call as.matrix\\(\\)" = data.frame(a = 1),
    "is a character vector: charToRaw\\(\\)" = "a",
    "is NULL: every rank must pass a vector" = NULL,
    "is an integer64 vector: call as.double\\(\\)" = structure(1, class = "integer64"),
    "is a POSIXlt object: call as.POSIXct\\(\\)" = as.POSIXlt("2024-05-01", tz = "UTC"),
    "has class \"kind\", and collectives .* call unclass\\(\\)" = structure(1, class = "kind"),
    "has class \"hexmode\"" = as.hexmode(3L),
    "has class \"Date\"" = structure(as.raw(1), class = "Date"),
    "must be a double, integer, logical, complex or raw vector, not closure" = mean,
    "must be a double, integer, logical, complex or raw vector, not an S4 object" =
      asS4(structure(1, class = "numeric"))
  )
  for (message in names(refused)) {
    x <- refused[[message]]
    expect_error(ring_allreduce(comm, x), message, class = "ring_error_invalid")
    expect_error(ring_broadcast(comm, x), message, class = "ring_error_invalid")
    expect_error(ring_allgather(comm, x), message, class = "ring_error_invalid")
    expect_error(ring_allgatherv(comm, x), message, class = "ring_error_invalid")
    expect_error(ring_scatter(comm, x), message, class = "ring_error_invalid")
    named <- sub("^is", "`xs\\\\[\\\\[1\\\\]\\\\]` is", message)
    expect_error(ring_allreduce_group(comm, list(x)), named, class = "ring_error_invalid")
  }
})

test_that("a logical is TRUE or FALSE, whatever number another rank sends", {
  gathered <- run_ring(2, ring_allgather(comm, if (rank == 0) 5L else TRUE))
  expect_identical(gathered[[2]], c(TRUE, TRUE))
  given <- run_ring(2, ring_broadcast(comm, if (rank == 0) c(256L, 0L, NA) else logical(3)))
  expect_identical(given[[2]], c(TRUE, FALSE, NA))
})
