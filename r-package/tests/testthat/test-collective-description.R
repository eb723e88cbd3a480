# SPDX-License-Identifier: Apache-2.0

# nolint start: object_usage_linter. What testthat and helper-ranks.R give to this code.

# What each of two ranks gets from `call`, where `x` is `first` on rank 0 and `second` on rank 1:
# NULL, or the error, which who only sends gets from the next call.
compare <- function(first, second, call, ...) {
  run_ranks(2, first = first, second = second, call = substitute(call), ..., {
    comm <- open(call_timeout = 20)
    x <- if (rank == 0) first else second
    tryCatch({
      eval(call)
      ring_close(comm)
      NULL
    }, ring_error = function(error) list(class = class(error)[[1]], text = conditionMessage(error)))
  })
}

expect_same <- function(first, second, call) {
  results <- eval(bquote(compare(first, second, .(substitute(call)))))
  expect_identical(results, list(NULL, NULL))
}

expect_differs <- function(first, second, call, texts) {
  for (result in eval(bquote(compare(first, second, .(substitute(call)))))) {
    expect_identical(result$class, "ring_error_mismatch")
    for (text in texts) expect_match(result$text, text, fixed = TRUE)
  }
}

# nolint end

test_that("ranks whose names differ learn both", {
  ours <- table(c("a", "b", "b"))
  theirs <- table(c("b", "c", "c", "c"))
  expect_differs(ours, theirs, ring_allreduce(comm, x), c(
    "of class table, dim c(2), dimnames list(c(\"a\", \"b\"))",
    "of class table, dim c(2), dimnames list(c(\"b\", \"c\"))"
  ))
  named <- c("of names c(\"p\", \"q\")", "of names c(\"q\", \"p\")")
  ours <- c(p = 1, q = 2)
  theirs <- c(q = 2, p = 1)
  expect_differs(ours, theirs, ring_allreduce(comm, x), named)
  expect_differs(ours, theirs, ring_wait(ring_allreduce_start(comm, x)), named)
  expect_differs(ours, theirs, ring_reduce(comm, x, "max"), named)
  expect_differs(ours, theirs, ring_reduce_scatter(comm, x), named)
  expect_differs(ours, theirs, ring_broadcast(comm, x), named)
  expect_differs(ours, theirs, ring_allgather(comm, x), named)
  expect_differs(ours, theirs, ring_gather(comm, x), named)
  expect_differs(ours, theirs, ring_scatter(comm, x), named)
  expect_differs(ours, theirs, ring_alltoall(comm, x), named)
  expect_differs(ours, unname(ours), ring_allreduce(comm, x), named[[1]])
  expect_differs(ours, theirs, ring_allreduce_group(comm, list(1, x)), "of xs[[2]]: names c")
  expect_differs(ours, theirs, ring_allreduce_group(comm, as.list(x)), named)
  expect_differs(ours, theirs, ring_wait(ring_allreduce_group_start(comm, list(x))), "xs[[1]]: na")
})

test_that("ranks whose dimensions differ learn both", {
  wide <- matrix(1:6 + 0, 2)
  tall <- matrix(1:6 + 0, 3)
  dims <- c("of dim c(2, 3)", "of dim c(3, 2)")
  expect_differs(wide, tall, ring_allreduce(comm, x), dims)
  expect_differs(wide, c(wide), ring_allreduce(comm, x), dims[[1]])
  expect_differs(wide, tall, ring_allgather(comm, x), dims)
  expect_differs(wide, tall, ring_gather(comm, x, 1), dims)
  expect_differs(wide, array(1, c(2, 1, 3)), ring_allreduce_group(comm, list(x)), "dim c(2, 1, 3)")
  labelled <- matrix(1:6 + 0, 2, dimnames = list(row = c("u", "v"), NULL))
  other <- matrix(1:6 + 0, 2, dimnames = list(column = c("u", "v"), NULL))
  expect_differs(labelled, other, ring_allreduce(comm, x), c(
    "of dim c(2, 3), dimnames list(row = c(\"u\", \"v\"), NULL)",
    "list(column = c(\"u\", \"v\"), NULL)"
  ))
})

test_that("parts may differ in the last dimension, and in nothing else", {
  two <- matrix(1:4 + 0, 2, dimnames = list(c("u", "v"), c("a", "b")))
  three <- matrix(1:6 + 0, 2, dimnames = list(c("u", "v"), c("c", "d", "e")))
  turned <- matrix(1:4 + 0, 2, dimnames = list(c("v", "u"), NULL))
  expect_same(two, three, ring_allgatherv(comm, x))
  expect_same(two, three, ring_gatherv(comm, x))
  expect_same(two, three, ring_wait(ring_allgatherv_start(comm, x)))
  expect_same(two, three, ring_alltoallv(comm, x, c(1, ncol(x) - 1)))
  expect_same(three, two[, 0, drop = FALSE], ring_scatterv(comm, x, c(1, 2)))
  expect_same(c(a = 1), c(b = 2, c = 3), ring_allgatherv(comm, x))
  rows <- c("of dim c(2, *), dimnames list(c(\"u\", \"v\"))", "dimnames list(c(\"v\", \"u\"))")
  expect_differs(two, turned, ring_allgatherv(comm, x), rows)
  expect_differs(two, turned, ring_gatherv(comm, x), rows)
  expect_differs(two, turned, ring_scatterv(comm, x, c(1, 1)), rows)
  expect_differs(two, turned, ring_alltoallv(comm, x, c(1, 1)), rows)
  expect_differs(array(0, c(2, 3, 2)), array(0, c(3, 2, 2)), ring_allgatherv(comm, x), c(
    "of dim c(2, 3, *)", "of dim c(3, 2, *)"
  ))
})

test_that("ranks whose classes or units differ learn both", {
  expect_differs(.Date(1), 1, ring_allreduce(comm, x, "max"), "of class Date")
  expect_differs(.Date(1), .POSIXct(1), ring_broadcast(comm, x), c("class Date", "class POSIXct"))
  expect_differs(.Date(1), 1, ring_allgatherv(comm, x), "of class Date")
  hours <- as.difftime(1, units = "hours")
  expect_differs(hours, as.difftime(1, units = "mins"), ring_allreduce(comm, x), c(
    "of class difftime in hours", "of class difftime in mins"
  ))
  here <- .POSIXct(1, tz = "UTC")
  expect_same(here, .POSIXct(2, tz = "Asia/Tokyo"), ring_allreduce(comm, x, "max"))
  expect_same(.Date(1L), .Date(2), ring_broadcast(comm, x))
})

test_that("descriptions that mean the same do not differ", {
  expect_same(c(1, 2), array(1:2 + 0, 2), ring_allreduce(comm, x))
  expect_same(structure(1:2, note = "one"), structure(3:4, note = "two"), ring_allreduce(comm, x))
  expect_same(c(a = 1)[0], double(), ring_allreduce(comm, x))
  latin <- "caf\xe9"
  Encoding(latin) <- "latin1"
  expect_same(setNames(1, latin), setNames(2, enc2utf8(latin)), ring_allreduce(comm, x))
  unnamed <- matrix(1, 1, 2, dimnames = list(NULL, NULL))
  expect_same(unnamed, matrix(2, 1, 2), ring_allreduce(comm, x))
})

test_that("an error shortens long names, and has their digests where they differ", {
  long <- paste0(strrep("\u00e9", 30), 1:100)
  other <- rev(long)
  results <- compare(setNames(1:100, long), setNames(1:100, c(long[1:50], other[1:50])),
                  ring_allreduce(comm, x))
  for (result in results) {
    expect_identical(result$class, "ring_error_mismatch")
    expect_true(validUTF8(result$text))
    shown <- regmatches(result$text, gregexpr("names c\\([^)]*\\)", result$text))[[1]]
    expect_length(unique(shown), 2L)
    expect_match(shown, "^names c\\(\"\u00e9{12}...\", .* ... 100 in all #[0-9a-f]{4}\\)$")
  }
  tall <- function(letter) array(0, rep(2, 6), rep(list(paste0(strrep(letter, 50), 1:2)), 6))
  for (result in compare(tall("a"), tall("b"), ring_allreduce(comm, x))) {
    expect_match(result$text, "[.][.][.] #[0-9a-f]{4}")
  }
})

test_that("the description of a call that is refused is not that of the next one", {
  results <- run_ring(2, {
    refused <- tryCatch(ring_broadcast(comm, c(a = 1), root = 5), ring_error_invalid = class)
    list(refused[[1]], ring_allreduce(comm, 1 + rank))
  })
  for (result in results) expect_identical(result, list("ring_error_invalid", 3))
})
