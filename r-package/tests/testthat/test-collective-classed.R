# SPDX-License-Identifier: Apache-2.0

# What rank `rank` brings, of each class; of two or more elements.
classed_of <- function(rank, count = 2L) {
  days <- 19000 + rank + seq_len(count)
  list(
    date = .Date(days), whole_date = .Date(as.integer(days)),
    named_date = .Date(c(a = 1, b = NA) + rank),
    time = .POSIXct(days * 86400, tz = "UTC"), local_time = .POSIXct(days),
    lasted = as.difftime(days, units = "hours"), whole_lasted = as.difftime(1:2, units = "days"),
    kind_of_date = structure(days, class = c("IDate", "Date"))
  )
}

test_that("dates, times and durations keep their class and units where numbers move", {
  results <- run_ring(2, classed_of = classed_of, {
    lapply(classed_of(rank), function(x) {
      list(
        broadcast = ring_broadcast(comm, x, root = 1), gathered = ring_allgather(comm, x[1]),
        columns = ring_allgather(comm, x), root = ring_gather(comm, x[1], root = 1),
        any_length = ring_allgatherv(comm, x[seq_len(rank + 1)]),
        on_root = ring_gatherv(comm, x[1], root = 0),
        scattered = ring_scatter(comm, x, root = 1),
        cut = ring_scatterv(comm, x, c(0, 2), root = 1),
        exchanged = ring_alltoall(comm, x), swapped = ring_alltoallv(comm, x, c(1, 1))
      )
    })
  })
  ours <- classed_of(0)
  theirs <- classed_of(1)
  as_doubles <- function(x) {
    storage.mode(x) <- "double"
    x
  }
  for (name in names(ours)) {
    x <- as_doubles(ours[[name]])
    y <- as_doubles(theirs[[name]])
    plain <- unname(y)
    for (rank in 0:1) {
      result <- results[[rank + 1]][[name]]
      expect_identical(result$broadcast, y)
      expect_identical(result$gathered, c(unname(x)[1], unname(y)[1]), ignore_attr = "class")
      expect_identical(class(result$gathered), class(x))
      expect_identical(class(result$columns), class(x))
      expect_identical(unclass(result$columns)[, 2], unclass(y), ignore_attr = TRUE)
      expect_identical(attr(result$columns, "units"), attr(x, "units"))
      expect_identical(result$root, if (rank == 1) result$gathered)
      expect_identical(class(result$any_length), class(x))
      expect_identical(as.double(result$any_length), as.double(c(x[1], y)))
      expect_identical(result$on_root, if (rank == 0) result$gathered)
      expect_identical(result$scattered, y[rank + 1])
      expect_identical(result$cut, if (rank == 0) plain[0] else plain)
      expect_identical(as.double(result$exchanged), as.double(c(x[rank + 1], y[rank + 1])))
      expect_identical(class(result$exchanged), class(x))
      expect_identical(as.double(result$swapped), as.double(c(x[rank + 1], y[rank + 1])))
      expect_identical(class(result$swapped), class(x))
    }
  }
})

test_that("min, max and average of them are of their class, and a sum of durations", {
  results <- run_ring(2, {
    day <- .Date(c(10, NA) + rank)
    time <- .POSIXct(c(100, 200) + rank, tz = c("UTC", "Asia/Tokyo")[[rank + 1]])
    lasted <- as.difftime(c(a = 1, b = 3) + rank, units = "mins")
    request <- ring_allreduce_start(comm, time, "max")
    list(
      day = lapply(c("min", "max", "avg"), function(op) ring_allreduce(comm, day, op)),
      time = lapply(c("min", "max", "avg"), function(op) ring_allreduce(comm, time, op)),
      lasted = lapply(c("min", "max", "avg", "sum"), function(op) ring_allreduce(comm, lasted, op)),
      whole = ring_allreduce(comm, .Date(10L + rank), "max"),
      mixed = ring_allreduce(comm, .Date(if (rank == 0) 3L else 4), "max"),
      average = ring_allreduce(comm, structure(7L + rank, class = c("IDate", "Date")), "avg"),
      reduced = ring_reduce(comm, day, "max"), part = ring_reduce_scatter(comm, lasted),
      group = ring_allreduce_group(comm, list(day = day, lasted = lasted), "max"),
      started = ring_wait(request)
    )
  })
  for (rank in 0:1) {
    result <- results[[rank + 1]]
    zone <- c("UTC", "Asia/Tokyo")[[rank + 1]]
    expect_identical(result$day, list(.Date(c(10, NA)), .Date(c(11, NA)), .Date(c(10.5, NA))))
    times <- list(c(100, 200), c(101, 201), c(100.5, 200.5))
    expect_identical(result$time, lapply(times, .POSIXct, tz = zone))
    spans <- list(c(a = 1, b = 3), c(a = 2, b = 4), c(a = 1.5, b = 3.5), c(a = 3, b = 7))
    expect_identical(result$lasted, lapply(spans, as.difftime, units = "mins"))
    expect_identical(result$whole, .Date(11))
    expect_identical(result$mixed, .Date(4))
    expect_identical(result$average, .Date(7.5))
    expect_identical(result$reduced, if (rank == 0) .Date(c(11, NA)))
    expect_identical(result$part, as.difftime(list(c(a = 3), c(b = 7))[[rank + 1]], units = "mins"))
    expect_identical(result$group, list(day = result$day[[2]], lasted = result$lasted[[2]]))
    expect_identical(result$started, result$time[[2]])
  }
})

test_that("what base R does not define for a class is an error before anything is sent", {
  comm <- local_world()
  text <- function(x, op) {
    tryCatch(ring_allreduce(comm, x, op), ring_error_invalid = conditionMessage)
  }
  expect_match(
    text(Sys.Date(), "sum"), "\"sum\" is not defined for \"Date\" objects, and `x` is one: use"
  )
  expect_match(text(Sys.Date(), "prod"), "\"prod\" is not defined for \"Date\" objects")
  expect_match(text(.Date(1L), "lor"), "\"lor\" is not defined for \"Date\" objects")
  expect_match(text(Sys.time(), "sum"), "\"sum\" is not defined for \"POSIXct\" objects")
  lasted <- as.difftime(1, units = "secs")
  expect_match(text(lasted, "prod"), "for \"difftime\" .* \"max\", \"sum\" or \"avg\"")
  expect_error(ring_reduce(comm, Sys.Date()), "not defined", class = "ring_error_invalid")
  expect_error(ring_reduce_scatter(comm, Sys.Date()), "not defined", class = "ring_error_invalid")
  expect_error(ring_allreduce_group(comm, list(1, Sys.Date())), "`xs\\[\\[2\\]\\]` is one")
  expect_error(ring_allreduce_start(comm, Sys.Date()), "not defined", class = "ring_error_invalid")
})

test_that("tables keep their class in reductions", {
  results <- run_ring(2, {
    counts <- table(flower = factor(c("a", "b", "b")[seq_len(2 + rank)], c("a", "b")))
    list(
      sum = ring_allreduce(comm, counts), max = ring_allreduce(comm, counts, "max"),
      average = ring_allreduce(comm, counts, "avg"), any = ring_allreduce(comm, counts, "lor"),
      part = ring_reduce_scatter(comm, counts), sent = ring_broadcast(comm, counts),
      gathered = ring_allgather(comm, counts)
    )
  })
  titled <- function(numbers) {
    as.table(array(numbers, 2, list(flower = c("a", "b"))))
  }
  for (rank in 0:1) {
    result <- results[[rank + 1]]
    expect_identical(result$sum, titled(2:3))
    expect_identical(result$max, titled(1:2))
    expect_identical(result$average, titled(c(1, 1.5)))
    expect_identical(result$any, unclass(titled(c(TRUE, TRUE))))
    part <- array(2:3, 2, list(flower = c("a", "b")))[rank + 1, drop = FALSE]
    expect_identical(result$part, as.table(part))
    expect_identical(result$sent, titled(c(1L, 1L)))
    expect_identical(c(result$gathered), c(1L, 1L, 1L, 2L))
    expect_identical(dimnames(result$gathered), list(flower = c("a", "b"), NULL))
    expect_false(is.object(result$gathered))
  }
  comm <- local_world()
  counts <- table(c("a", "b"))
  refused <- list(
    quote(ring_allgatherv(comm, counts)), quote(ring_gatherv(comm, counts)),
    quote(ring_scatterv(comm, counts, 2)), quote(ring_alltoallv(comm, counts, 2))
  )
  for (call in refused) {
    expect_error(eval(call), "is a table.*ring_table\\(\\)", class = "ring_error_invalid")
  }
})

test_that("what is received is of the class that the receiver names", {
  results <- run_ring(2, {
    if (rank == 0) ring_send(comm, .Date(5L), 1) else ring_recv(comm, .Date(0), 0)
  })
  expect_identical(results[[2]], .Date(5))
})
