# SPDX-License-Identifier: Apache-2.0

# Values of a rank, small and large, which differ in length from rank to rank. To be sent to the
# ranks, as `objects_of`.
objects_of <- function(rank) {
  list(
    NULL, list(), character(), double(), rank, c(TRUE, NA), 2^70 + rank, 1i,
    strrep("ring", rank), c("\u00e9", NA), list(rank = rank, nested = list(list(a = NULL))),
    factor(letters[1:3]), as.Date("2026-01-01") + rank, quote(x + y), as.raw(seq_len(rank)),
    data.frame(x = seq_len(rank), y = rep("a", rank)), matrix(list(1, "a"), 1),
    seq_len(5000L * (rank + 1L)) / 4, raw(9000 * rank)
  )
}

test_that("every object goes to every rank", {
  for (size in 1:4) {
    agreed <- run_ring(size, {
      ranks <- seq_len(size) - 1L
      check <- function(...) {
        every <- list(...)
        mine <- every[[rank + 1L]]
        sent <- lapply(ranks, function(to) list(mine, every[[to + 1L]]))
        came <- lapply(every, function(theirs) list(theirs, mine))
        one_root <- function(root) {
          given <- if (rank == root) mine else print
          all <- if (rank == root) every
          identical(ring_broadcast_object(comm, given, root), every[[root + 1L]]) &&
            identical(ring_gather_object(comm, mine, root), all) &&
            identical(ring_scatter_object(comm, all, root), mine)
        }
        identical(ring_allgather_object(comm, mine), every) &&
          identical(ring_alltoall_object(comm, sent), came) &&
          all(vapply(ranks, one_root, NA))
      }
      unlist(do.call(Map, c(check, lapply(ranks, objects_of))))
    }, objects_of = objects_of)
    for (each in agreed) expect_identical(each, rep(TRUE, length(objects_of(0L))))
  }
})

test_that("functions and environments go to other ranks", {
  results <- run_ring(2, {
    counter <- local({
      count <- rank
      function(by) count + by
    })
    vapply(ring_allgather_object(comm, counter), function(f) f(10), 1)
  })
  expect_identical(results, list(c(10, 11), c(10, 11)))
})

test_that("messages carry objects", {
  for (size in 2:4) {
    agreed <- run_ring(size, {
      after <- (rank + 1L) %% size
      before <- (rank - 1L) %% size
      pass <- function(mine, theirs) {
        if (rank %% 2L == 0L) ring_send_object(comm, mine, after)
        came <- ring_recv_object(comm, before)
        if (rank %% 2L == 1L) ring_send_object(comm, mine, after)
        identical(came, theirs)
      }
      unlist(Map(pass, objects_of(rank), objects_of(before)))
    }, objects_of = objects_of)
    for (each in agreed) expect_identical(each, rep(TRUE, length(objects_of(0L))))
  }
})

test_that("reduction goes in rank order", {
  for (size in 1:4) {
    results <- run_ring(size, {
      list(
        sum = ring_allreduce_object(comm, rank),
        nested = ring_allreduce_object(comm, rank, function(x, y) paste0("(", x, y, ")")),
        union = ring_allreduce_object(comm, rank, op = union),
        frame = ring_allreduce_object(comm, data.frame(rank = rank), rbind)
      )
    })
    ranks <- seq_len(size) - 1L
    expected <- list(
      sum = sum(ranks), nested = list(0L, "(01)", "((01)2)", "(((01)2)3)")[[size]],
      union = ranks, frame = data.frame(rank = ranks)
    )
    for (result in results) expect_identical(result, expected)
  }
})

test_that("a call for objects is two of the core", {
  counts <- run_ring(2, {
    x <- list(rank, double(9000))
    count <- function(code) {
      before <- ring_counters(comm)$calls
      force(code)
      ring_counters(comm)$calls - before
    }
    c(
      count(ring_broadcast_object(comm, x)), count(ring_allgather_object(comm, x)),
      count(ring_gather_object(comm, x)), count(ring_scatter_object(comm, x)),
      count(ring_alltoall_object(comm, x)), count(ring_allreduce_object(comm, x, c)),
      count(if (rank == 0) ring_recv_object(comm, 1) else ring_send_object(comm, x, 0))
    )
  })
  expect_identical(counts, list(rep(2, 7), rep(2, 7)))
})

# The error of a call in place of its value: the rank at fault and the message.
text <- function(code) {
  tryCatch(code, error = function(error) {
    list(class = class(error)[[1]], rank = error$rank, text = conditionMessage(error))
  })
}

test_that("a rank that cannot serialise is an error on the others", {
  results <- run_ring(3, {
    x <- rank
    if (rank == 1) for (level in 1:2e6) x <- list(x) # too deep for the stack
    xs <- list(0, 0, x)
    calls <- alist(
      ring_broadcast_object(comm, x, 1), ring_allgather_object(comm, x),
      ring_scatter_object(comm, xs, 1), ring_alltoall_object(comm, xs),
      ring_allreduce_object(comm, x)
    )
    here <- environment()
    errors <- lapply(calls, function(call) {
      error <- text(eval(call, here))
      c(error, total = ring_allreduce(comm, 1))
    })
    gathered <- text(ring_gather_object(comm, x))
    if (rank == 1) {
      sent <- text(ring_send_object(comm, x, 0))
      ring_send_object(comm, "later", 0)
    } else if (rank == 0) {
      sent <- list(text(ring_recv_object(comm, 1)), ring_recv_object(comm, 1))
    } else {
      sent <- NULL
    }
    list(
      errors = errors, gathered = gathered, sent = sent,
      after = ring_allgather_object(comm, rank)
    )
  }, text = text)
  for (rank in c(0, 2)) {
    for (error in results[[rank + 1]]$errors) {
      expect_identical(error[c("class", "rank")], list(class = "ring_error_invalid", rank = 1L))
      expect_match(error$text, "^rank 1 could not send its object: .*stack")
      expect_identical(error$total, 3)
    }
  }
  own <- results[[2]]
  for (error in c(own$errors, list(own$gathered, own$sent))) {
    expect_match(error$text, "stack")
    expect_null(error$rank)
  }
  expect_identical(results[[1]]$gathered$rank, 1L)
  expect_null(results[[3]]$gathered)
  expect_identical(results[[1]]$sent[[1]]$rank, 1L)
  expect_identical(results[[1]]$sent[[2]], "later")
  for (result in results) expect_identical(result$after, list(0L, 1L, 2L))
})

test_that("what is not an object of R is refused", {
  results <- run_ring(2, {
    own <- if (.Platform$endian == "little") "ring-R3<" else "ring-R3>"
    kinds <- c(foreign = "ring-py5", version = "ring-R9<", damaged = own)
    trailer <- function(kind, length) {
      c(charToRaw(kind), writeBin(as.double(length), raw(), endian = "little"))
    }
    encoded <- lapply(kinds, function(kind) c(as.raw(1:99), trailer(kind, 115)))
    plain <- list(
      raw(), as.raw(1:5), trailer("anything", 16), trailer(own, 99),
      trailer(own, -1), trailer(own, 8), trailer(own, NaN)
    )
    exchange <- function(bytes) {
      if (rank == 1) ring_allgatherv(comm, bytes) else text(ring_allgather_object(comm, rank))
    }
    list(
      encoded = lapply(encoded, exchange), plain = lapply(plain, exchange),
      after = ring_allgather_object(comm, rank)
    )
  }, text = text)
  first <- results[[1]]
  expect_match(first$encoded$foreign$text, "rank 1 comes from Python, and R cannot read it: send")
  expect_match(first$encoded$version$text, "rank 1 comes from another version of sparkring, or a")
  expect_match(first$encoded$damaged$text, "the object of rank 1 cannot be read here: ")
  for (error in first$encoded) expect_identical(error$rank, 1L)
  for (error in first$plain) {
    expect_identical(error$class, "ring_error_invalid")
    expect_match(error$text, "other ranks sent bytes that are no objects: all ranks must call the")
  }
  for (result in results) expect_identical(result$after, list(0L, 1L))
})

test_that("bad arguments are errors, and the communicator goes on", {
  results <- run_ring(2, {
    list(
      alone = list(
        text(ring_broadcast_object(comm, 1, 2)), text(ring_gather_object(comm, 1, 2)),
        text(ring_scatter_object(comm, 1, 2)), text(ring_send_object(comm, 1, 2)),
        text(ring_recv_object(comm, 2))
      ),
      own = text(ring_send_object(comm, 1, rank)),
      op = text(ring_allreduce_object(comm, 1, "sum")),
      ops = text(ring_allreduce_object(comm, NULL, if (rank == 0) max else min)),
      after = ring_allgather_object(comm, rank)
    )
  }, text = text)
  for (result in results) {
    for (error in result$alone) expect_match(error$text, "2 is no rank: ranks go from 0 to 1")
    expect_match(result$own$text, "peer is this rank itself")
    expect_identical(result$op$text, "`op` must be a function of two values, not \"sum\"")
    expect_identical(result$ops$class, "ring_error_mismatch")
    expect_match(result$ops$text, "rank 1 passes another function as `op` than rank 0")
    expect_identical(result$after, list(0L, 1L))
  }
  comm <- local_world()
  wrong <- list(
    quote(ring_scatter_object(comm, 1)), quote(ring_recv_object(comm, -1)),
    quote(ring_allreduce_object(comm, 1, NULL))
  )
  for (call in wrong) {
    error <- tryCatch(eval(call), ring_error_invalid = identity)
    expect_identical(conditionCall(error), call)
  }
})

test_that("a list that does not fit the ranks is an error on all of them", {
  results <- run_ring(2, {
    both <- function(xs) {
      list(text(ring_scatter_object(comm, xs)), text(ring_alltoall_object(comm, xs)))
    }
    list(
      length = both(list(1, 2, 3)[seq_len(3 - rank)]),
      type = both(if (rank == 1) list(1, 2)),
      after = ring_allgather_object(comm, rank)
    )
  }, text = text)
  texts <- list(
    length = "`xs` has 3 values and there are 2 ranks: pass one for each rank",
    type = "`xs` must be a list, with one value for each rank, not NULL"
  )
  for (name in names(texts)) {
    for (error in results[[1]][[name]]) expect_identical(error$text, texts[[name]])
    for (error in results[[2]][[name]]) {
      expect_identical(error$text, paste("rank 0 could not send its object:", texts[[name]]))
      expect_identical(error[c("class", "rank")], list(class = "ring_error_invalid", rank = 0L))
    }
  }
  for (result in results) expect_identical(result$after, list(0L, 1L))
})

test_that("there are no objects without a token", {
  results <- run_ranks(2, {
    comm <- open()
    calls <- alist(
      ring_broadcast_object(comm, 1), ring_allgather_object(comm, 1),
      ring_gather_object(comm, 1), ring_scatter_object(comm, list(1, 2)),
      ring_alltoall_object(comm, list(1, 2)), ring_allreduce_object(comm, 1),
      ring_send_object(comm, 1, 1 - rank), ring_recv_object(comm, 1 - rank)
    )
    here <- environment()
    errors <- lapply(calls, function(call) tryCatch(eval(call, here), error = identity))
    total <- ring_allreduce(comm, 1)
    ring_close(comm)
    list(errors = errors, calls = calls, total = total)
  }, options = list(timeout = 30, job = fresh_token()))
  for (result in results) {
    expect_identical(result$total, 2)
    for (error in result$errors) {
      expect_s3_class(error, "ring_error_invalid")
      expect_match(conditionMessage(error), "any code: pass the same `token` to ring_init()")
    }
    expect_identical(lapply(result$errors, conditionCall), result$calls)
  }
  comm <- local_world()
  expect_identical(ring_allgather_object(comm, "alone"), list("alone"))
})
