# SPDX-License-Identifier: Apache-2.0

test_that("allreduce applies every op to every type", {
  results <- run_ring(3, {
    reduce <- function(x) {
      lapply(
        c(sum = "sum", prod = "prod", min = "min", max = "max", avg = "avg"),
        function(op) ring_allreduce(comm, x, op)
      )
    }
    truth <- function(x) {
      list(land = ring_allreduce(comm, x, "land"), lor = ring_allreduce(comm, x, "lor"))
    }
    flags <- list(c(TRUE, rank == 1, FALSE), c(7L, rank, 0L), as.raw(c(9, rank, 0)))
    list(
      double = reduce(c(0.5, 2) + rank), integer = reduce(c(1L, -2L) * (rank + 1L)),
      logical = reduce(c(TRUE, rank == 1)), raw = reduce(as.raw(rank + 1)),
      truth = lapply(flags, truth)
    )
  })
  expect_identical(results[[1]], results[[2]])
  expect_identical(results[[1]], results[[3]])
  got <- results[[1]]
  expect_identical(got$double, list(
    sum = c(4.5, 9), prod = c(1.875, 24), min = c(0.5, 2), max = c(2.5, 4), avg = c(1.5, 3)
  ))
  expect_identical(got$integer, list(
    sum = c(6L, -12L), prod = c(6L, -48L), min = c(1L, -6L), max = c(3L, -2L), avg = c(2, -4)
  ))
  expect_identical(got$logical, list(
    sum = c(3L, 1L), prod = c(1L, 0L), min = c(1L, 0L), max = c(1L, 1L), avg = c(1, 1 / 3)
  ))
  expect_identical(got$raw, list(
    sum = as.raw(6), prod = as.raw(6), min = as.raw(1), max = as.raw(3), avg = 2
  ))
  expect_identical(got$truth, list(
    list(land = c(TRUE, FALSE, FALSE), lor = c(TRUE, TRUE, FALSE)),
    list(land = c(TRUE, FALSE, FALSE), lor = c(TRUE, TRUE, FALSE)),
    list(land = as.raw(c(1, 0, 0)), lor = as.raw(c(1, 1, 0)))
  ))
})

test_that("a world of one gives the types that larger ones give", {
  comm <- local_world()
  expect_identical(ring_allreduce(comm, TRUE), 1L)
  expect_identical(ring_allreduce(comm, 7L, "lor"), TRUE)
  expect_identical(ring_allreduce(comm, as.raw(7), "land"), as.raw(1))
  for (op in c("avg", "mean", "average")) expect_identical(ring_allreduce(comm, 7L, op), 7)
})

# The value of `code`, and the warnings that came on the way.
warned <- function(code) {
  messages <- character()
  value <- withCallingHandlers(code, warning = function(warning) {
    messages <<- c(messages, conditionMessage(warning))
    invokeRestart("muffleWarning")
  })
  list(value = value, messages = messages)
}

test_that("integers that do not fit are NA with a warning, on every rank", {
  most <- .Machine$integer.max
  results <- run_ring(2, warned = warned, most = most, {
    flags <- c(TRUE, rank == 0)
    list(
      sum = warned(ring_allreduce(comm, 1500000000L)),
      least = warned(ring_allreduce(comm, c(-most, -most + rank, 5L, -1L)[c(1, 3, 4)])),
      product = warned(ring_allreduce(comm, c(50000L, 46340L, -most), "prod")),
      matrix = warned(ring_allreduce(comm, matrix(c(most, 1L), 1, dimnames = list("a", NULL)))),
      names = warned(ring_allreduce(comm, c(a = most, b = 1L))),
      logical = warned(ring_allreduce(comm, flags)),
      reduce = warned(ring_reduce(comm, c(most, 2L), root = 1)),
      scatter = warned(ring_reduce_scatter(comm, c(most, 2L))),
      extremes = warned(list(ring_allreduce(comm, c(most, -most), "max"),
                             ring_allreduce(comm, c(most, -most), "min"))),
      raw = warned(ring_allreduce(comm, as.raw(200))),
      double = warned(ring_allreduce(comm, as.double(most)))
    )
  })
  over <- "NAs produced by integer overflow: call as.double() on the vectors, on every rank"
  for (rank in 0:1) {
    result <- results[[rank + 1]]
    expect_identical(result$sum, list(value = NA_integer_, messages = over))
    expect_identical(result$least, list(value = c(NA, 10L, -2L), messages = over))
    expect_identical(result$product, list(value = c(NA, 46340L * 46340L, NA), messages = over))
    table <- matrix(c(NA, 2L), 1, dimnames = list("a", NULL))
    expect_identical(result$matrix, list(value = table, messages = over))
    expect_identical(result$names, list(value = c(a = NA, b = 2L), messages = over))
    expect_identical(result$logical, list(value = 2:1, messages = character()))
    expect_identical(result$reduce, list(
      value = if (rank == 1) c(NA, 4L), messages = if (rank == 1) over else character()
    ))
    expect_identical(result$scatter, list(
      value = c(NA, 4L)[[rank + 1]], messages = if (rank == 0) over else character()
    ))
    expect_identical(result$extremes$value, list(c(most, -most), c(most, -most)))
    expect_identical(result$raw, list(value = as.raw(144), messages = character()))
    expect_identical(result$double, list(value = 2 * most, messages = character()))
  }
})

test_that("integers that fit are right, whatever partial results are", {
  results <- run_ring(3, warned = warned, {
    most <- .Machine$integer.max
    large <- rep(c(most, most, -most)[[rank + 1]], 2e5)
    list(
      sum = warned(ring_allreduce(comm, c(most, most, -most)[[rank + 1]])),
      product = warned(ring_allreduce(comm, c(most, most, 0L)[[rank + 1]], "prod")),
      negative = warned(ring_allreduce(comm, c(-1L, most, 1L)[[rank + 1]], "prod")),
      large = identical(ring_allreduce(comm, large), rep(most, 2e5)),
      average = ring_allreduce(comm, most, "avg"),
      empty = warned(ring_allreduce(comm, integer()))
    )
  })
  for (result in results) {
    expect_identical(result$sum, list(value = .Machine$integer.max, messages = character()))
    expect_identical(result$product, list(value = 0L, messages = character()))
    expect_identical(result$negative, list(value = -.Machine$integer.max, messages = character()))
    expect_true(result$large)
    expect_identical(result$average, as.double(.Machine$integer.max))
    expect_identical(result$empty, list(value = integer(), messages = character()))
  }
  many <- run_ring(40, ring_allreduce(comm, if (rank < 39) .Machine$integer.max else 0L, "prod"))
  for (result in many) expect_identical(result, 0L) # the product of 39 is past what doubles hold
})

test_that("groups and started calls give NA with one warning", {
  results <- run_ring(2, warned = warned, {
    most <- .Machine$integer.max
    xs <- list(a = most, b = c(TRUE, FALSE), c = matrix(c(most, 1L), 1))
    sum <- ring_allreduce_start(comm, c(a = most, b = 1L))
    group <- ring_allreduce_group_start(comm, xs)
    reduce <- ring_reduce_start(comm, most)
    part <- ring_reduce_scatter_start(comm, c(most, 1L), "prod")
    list(
      group = warned(ring_allreduce_group(comm, xs)), started_group = warned(ring_wait(group)),
      sum = warned(ring_wait(sum)), again = warned(ring_wait(sum)),
      reduce = warned(ring_wait(reduce)), part = warned(ring_wait(part))
    )
  })
  over <- "NAs produced by integer overflow: call as.double() on the vectors, on every rank"
  sums <- list(a = NA_integer_, b = c(2L, 0L), c = matrix(c(NA, 2L), 1))
  for (rank in 0:1) {
    result <- results[[rank + 1]]
    expect_identical(result$group, list(value = sums, messages = over))
    expect_identical(result$started_group, list(value = sums, messages = over))
    expect_identical(result$sum, list(value = c(a = NA, b = 2L), messages = over))
    expect_identical(result$again, list(value = c(a = NA, b = 2L), messages = character()))
    on_root <- if (rank == 0) over else character()
    expect_identical(result$reduce, list(value = if (rank == 0) NA_integer_, messages = on_root))
    expect_identical(result$part, list(value = c(NA, 1L)[[rank + 1]], messages = on_root))
  }
})

test_that("the warning names the user's call, and as an error it leaves the ring whole", {
  results <- run_ring(2, {
    call <- tryCatch(ring_allreduce(comm, 2e9L), warning = conditionCall)
    options(warn = 2)
    error <- tryCatch(ring_allreduce(comm, 2e9L), error = conditionMessage)
    list(call = call, error = error, sum = ring_allreduce(comm, 1L))
  })
  for (result in results) {
    expect_identical(result$call, quote(ring_allreduce(comm, 2e9L)))
    expect_match(result$error, "NAs produced by integer overflow")
    expect_identical(result$sum, 2L)
  }
})

test_that("integers and doubles do not meet in a sum or a product", {
  for (op in c("sum", "prod")) {
    results <- run_ranks(2, op = op, {
      comm <- open(call_timeout = 20)
      tryCatch({
        ring_allreduce(comm, if (rank == 0) 2L else 1.5, op)
        ring_barrier(comm)
      }, ring_error = function(error) class(error)[[1]])
    })
    expect_identical(results, list("ring_error_mismatch", "ring_error_mismatch"))
  }
})

test_that("broadcast gives every rank what root has", {
  results <- run_ring(3, {
    lapply(
      list(c(1.5, NA, NaN), c(3L, NA), c(TRUE, NA), as.raw(1:3), double()),
      function(x) ring_broadcast(comm, if (rank == 2) x else rev(x), root = 2)
    )
  })
  expected <- list(c(1.5, NA, NaN), c(3L, NA), c(TRUE, NA), as.raw(1:3), double())
  for (result in results) expect_identical(result, expected)
})

test_that("what broadcast gives its root is a value of its own", {
  results <- run_ring(2, {
    x <- c(1, 2, 3)
    y <- ring_broadcast(comm, x)
    y[[1]] <- 7
    z <- ring_wait(ring_broadcast_start(comm, x))
    x[[2]] <- 8
    named <- ring_broadcast(comm, c(a = 1L, b = 2L))
    list(x, y, z, named)
  })
  expected <- list(c(1, 8, 3), c(7, 2, 3), c(1, 2, 3), c(a = 1L, b = 2L))
  for (result in results) expect_identical(result, expected)
})

test_that("allgather puts the ranks last", {
  results <- run_ring(3, {
    blocks <- matrix(1:6 + 10L * rank, 2, dimnames = list(row = c("u", "v"), NULL))
    list(
      number = ring_allgather(comm, rank),
      vector = ring_allgather(comm, c(a = rank, b = NA)),
      matrix = ring_allgather(comm, blocks),
      logical = ring_allgather(comm, c(TRUE, NA)),
      raw = ring_allgather(comm, as.raw(rank)),
      empty = ring_allgather(comm, double())
    )
  })
  columns <- matrix(c(0L, NA, 1L, NA, 2L, NA), 2, dimnames = list(c("a", "b"), NULL))
  for (result in results) {
    expect_identical(result$number, 0:2)
    expect_identical(result$vector, columns)
    expect_identical(dim(result$matrix), c(2L, 3L, 3L))
    expect_identical(dimnames(result$matrix), list(row = c("u", "v"), NULL, NULL))
    expect_identical(c(result$matrix[, , 3]), 21:26)
    expect_identical(result$logical, matrix(c(TRUE, NA), 2, 3))
    expect_identical(result$raw, as.raw(0:2))
    expect_identical(result$empty, matrix(double(), 0, 3))
  }
})

test_that("large vectors give the same bytes on every rank", {
  results <- run_ring(4, {
    set.seed(rank)
    x <- rnorm(3e5)
    list(mine = x, sum = ring_allreduce(comm, x), gathered = ring_allgather(comm, x))
  })
  all <- vapply(results, function(result) result$mine, double(3e5))
  for (result in results) {
    expect_identical(result$sum, results[[1]]$sum)
    expect_equal(result$sum, rowSums(all))
    expect_identical(result$gathered, all)
  }
})

test_that("barrier waits for the last", {
  folder <- tempfile("barrier")
  dir.create(folder)
  seen <- run_ring(3, {
    file.create(file.path(folder, rank))
    ring_barrier(comm)
    length(dir(folder))
  }, folder = folder)
  unlink(folder, recursive = TRUE)
  expect_identical(seen, list(3L, 3L, 3L))
})

# What rank `rank` brings, of every type: `count` steps along the last dimension, three rows each
# where it is a matrix. To be sent to the ranks, as `cases`.
cases_of <- function(rank, count) {
  whole <- (seq_len(count) * 3L + 7L * rank) %% 11L
  wide <- matrix((seq_len(3L * count) + 5L * rank) %% 7L, 3)
  list(
    double = whole / 4, integer = whole, logical = whole > 5L, raw = as.raw(whole),
    matrix = wide, flags = wide > 3L, array = array(wide / 2, c(3, 1, count)),
    hollow = matrix(double(), 0, count), none = whole[0], nothing = wide[, 0]
  )
}

# The steps `which` along the last dimension.
steps <- function(x, which) {
  if (is.null(dim(x))) return(x[which])
  if (is.matrix(x)) x[, which, drop = FALSE] else x[, , which, drop = FALSE]
}

# All of them, put together along the last dimension.
together <- function(xs) {
  x <- do.call(c, lapply(xs, c))
  rest <- dim(xs[[1]])[-length(dim(xs[[1]]))]
  if (!is.null(dim(xs[[1]]))) dim(x) <- c(rest, sum(vapply(xs, extent, 1)))
  x
}

test_that("reduce gives root what allreduce gives, and the others NULL", {
  for (size in 1:4) {
    results <- run_ring(size, {
      mine <- cases_of(rank, 5L)
      ops <- c("sum", "prod", "min", "max", "avg", "land", "lor")
      agree <- function(x, op, root) {
        if (is.double(x) && op %in% c("land", "lor")) return(TRUE)
        all <- ring_allreduce(comm, x, op)
        identical(ring_reduce(comm, x, op, root), if (rank == root) all)
      }
      turns <- expand.grid(case = seq_along(mine), op = ops, stringsAsFactors = FALSE)
      agreed <- Map(
        function(case, op, turn) agree(mine[[case]], op, turn %% size),
        turns$case, turns$op, seq_len(nrow(turns))
      )
      named <- ring_reduce(comm, c(a = TRUE, b = rank == 0), root = size - 1)
      list(agreed = all(unlist(agreed)), named = named)
    }, cases_of = cases_of)
    for (result in results) expect_true(result$agreed)
    expect_identical(results[[size]]$named, c(a = size, b = 1L))
    for (result in results[-size]) expect_null(result$named)
  }
})

test_that("reduce_scatter gives every rank its part", {
  for (size in 1:4) {
    results <- run_ring(size, {
      mine <- cases_of(rank, 2L * size)
      own <- 2L * rank + 1:2
      check <- function(x, op) {
        whole <- ring_allreduce(comm, x, op)
        if (extent(x) > 0L) whole <- steps(whole, own)
        identical(ring_reduce_scatter(comm, x, op), whole)
      }
      labelled <- matrix(1:2, 2, size, dimnames = list(c("u", "v"), letters[seq_len(size)]))
      list(
        agreed = vapply(c(mine, mine), check, NA, op = "max"),
        averages = vapply(mine, check, NA, op = "avg"),
        labelled = ring_reduce_scatter(comm, labelled),
        named = ring_reduce_scatter(comm, c(a = 1, b = 2, c = 3, d = 4)[rep(1, size)])
      )
    }, cases_of = cases_of, steps = steps)
    for (rank in seq_len(size)) {
      result <- results[[rank]]
      expect_true(all(result$agreed) && all(result$averages))
      column <- matrix(1:2 * size, 2, 1, dimnames = list(c("u", "v"), letters[[rank]]))
      expect_identical(result$labelled, column)
      expect_identical(result$named, c(a = as.double(size)))
    }
  }
})

test_that("gather gives root what allgather gives, and the others NULL", {
  for (size in 1:4) {
    agreed <- run_ring(size, {
      check <- function(x) {
        all <- ring_allgather(comm, x)
        roots <- seq_len(size) - 1L
        all(vapply(roots, function(root) {
          identical(ring_gather(comm, x, root), if (rank == root) all)
        }, NA))
      }
      vapply(c(cases_of(rank, 5L), list(rank, c(a = NA, b = 1L), c(TRUE, NA))), check, NA)
    }, cases_of = cases_of)
    for (each in agreed) expect_true(all(each))
  }
})

test_that("scatter and alltoall cut into equal parts", {
  for (size in 1:4) {
    agreed <- run_ring(size, {
      ranks <- seq_len(size) - 1L
      every <- lapply(ranks, cases_of, 3L * size)
      part <- function(x, of) if (extent(x) == 0L) x else steps(x, 3L * of + 1:3)
      check <- function(name) {
        xs <- lapply(every, `[[`, name)
        scattered <- vapply(ranks, function(root) {
          told <- if (rank == root) xs[[root + 1L]] else rev(xs[[rank + 1L]])
          dim(told) <- dim(xs[[1L]])
          identical(ring_scatter(comm, told, root), part(xs[[root + 1L]], rank))
        }, NA)
        came <- together(lapply(xs, part, rank))
        all(scattered, identical(ring_alltoall(comm, xs[[rank + 1L]]), came))
      }
      vapply(names(every[[1L]]), check, NA)
    }, cases_of = cases_of, steps = steps, together = together)
    for (each in agreed) expect_identical(names(each)[!each], character())
  }
})

test_that("parts keep their names and missing values", {
  results <- run_ring(2, {
    x <- c(a = 1, b = NA, c = NaN, d = 4) + rank
    labelled <- matrix(c(TRUE, NA), 1, 2, dimnames = list("u", c("v", "w")))
    list(ring_scatter(comm, x), ring_alltoall(comm, x), ring_scatter(comm, labelled))
  })
  expect_identical(results[[1]][[1]], c(a = 1, b = NA))
  expect_identical(results[[2]][[1]], c(c = NaN, d = 4))
  expect_identical(results[[2]][[2]], c(a = NaN, b = 4, c = NaN, d = 5))
  expect_identical(results[[2]][[3]], matrix(NA, 1, 1, dimnames = list("u", "w")))
})

test_that("allgatherv, gatherv and scatterv take parts of any length", {
  for (size in 1:4) {
    agreed <- run_ring(size, {
      ranks <- seq_len(size) - 1L
      check <- function(name, counts) {
        xs <- Map(function(rank, count) cases_of(rank, count)[[name]], ranks, counts)
        x <- xs[[rank + 1L]]
        all <- together(xs)
        on_root <- function(root) {
          told <- if (rank == root) all else all[0]
          if (!is.null(dim(all)) && rank != root) told <- steps(all, 0L)
          gathered <- identical(ring_gatherv(comm, x, root), if (rank == root) all)
          gathered && identical(ring_scatterv(comm, told, vapply(xs, extent, 1), root), x)
        }
        identical(ring_allgatherv(comm, x), all) && all(vapply(ranks, on_root, NA))
      }
      uneven <- c(vapply(names(cases_of(0L, 1L)), check, NA, (ranks * 2L) %% 3L))
      c(uneven, vapply(names(cases_of(0L, 1L)), check, NA, rev(ranks)))
    }, cases_of = cases_of, steps = steps, together = together)
    for (each in agreed) expect_identical(names(each)[!each], character())
  }
})

test_that("counts are told where they are unknown", {
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
        identical(ring_alltoallv(comm, xs[[rank + 1L]], sends[rank + 1L, ]), together(parts))
      }
      vapply(names(cases_of(0L, 1L)), check, NA)
    }, cases_of = cases_of, steps = steps, together = together)
    for (each in agreed) expect_identical(names(each)[!each], character())
  }
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
    said <- function(code) tryCatch(code, ring_error_invalid = conditionMessage)
    messages <- c(
      said(ring_send(comm, 1, 2)), said(ring_recv(comm, 1, 2)),
      said(ring_reduce(comm, 1, root = 2)), said(ring_gather(comm, 1, 2)),
      said(ring_gatherv(comm, 1, 2)), said(ring_scatter(comm, 1:2, 2)),
      said(ring_scatterv(comm, 1:2, c(1, 1), 2))
    )
    own <- c(said(ring_send(comm, 1, rank)), said(ring_recv(comm, 1, rank)))
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

test_that("parts that do not add up are errors, and the communicator goes on", {
  results <- run_ring(2, {
    said <- function(code) tryCatch(code, ring_error_invalid = conditionMessage)
    list(
      equal = c(
        said(ring_scatter(comm, 1:3)), said(ring_reduce_scatter(comm, 1:3)),
        said(ring_alltoall(comm, 1:3))
      ),
      matrix = said(ring_alltoall(comm, matrix(1:6, 2))),
      length = said(ring_alltoallv(comm, 1:3, 3)),
      negative = said(ring_scatterv(comm, 1:3, c(4, -1))),
      sum = said(ring_alltoallv(comm, 1:3, c(1, 1))),
      columns = said(ring_alltoallv(comm, matrix(1:6, 2), c(3, 3))),
      root = if (rank == 0) said(ring_scatterv(comm, 1:3, c(1, 1))),
      memory = said(ring_scatterv(comm, 1:3, c(2^52, 1))),
      type = c(
        said(ring_scatterv(comm, 1:3, c(1.5, 1.5))), said(ring_alltoallv(comm, 1:3, c(NA, 1))),
        said(ring_alltoallv(comm, 1:3, "3")), said(ring_scatterv(comm, 1:3, NULL))
      ),
      missing = c(said(ring_reduce(comm, NA)), said(ring_reduce_scatter(comm, c(1L, NA)))),
      lists = c(
        said(ring_reduce(comm, list())), said(ring_reduce_scatter(comm, list())),
        said(ring_gather(comm, list())), said(ring_allgatherv(comm, list())),
        said(ring_gatherv(comm, list())), said(ring_scatter(comm, list())),
        said(ring_scatterv(comm, list(), c(0, 0))), said(ring_alltoall(comm, list())),
        said(ring_alltoallv(comm, list(), c(0, 0))), said(ring_send(comm, list(), 1 - rank)),
        said(ring_recv(comm, list(), 1 - rank))
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
