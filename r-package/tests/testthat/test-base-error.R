# SPDX-License-Identifier: Apache-2.0

test_that("a condition has status, rank and the user's call", {
  comm <- local_world()
  mine <- function(values) ring_allreduce(comm, values)
  error <- tryCatch(mine(list(1)), ring_error = identity)
  expect_s3_class(error, c("ring_error_invalid", "ring_error", "error", "condition"), exact = TRUE)
  expect_identical(error$status, "INVALID")
  expect_identical(error$rank, NA_integer_)
  expect_identical(conditionCall(error), quote(ring_allreduce(comm, values)))
})

test_that("bad arguments of ring_init are errors that name them", {
  invalid <- function(expression, message) {
    expect_error(expression, message, class = "ring_error_invalid")
  }
  two <- c("127.0.0.1", "127.0.0.1")
  invalid(ring_init(rank = 2, size = 2, addresses = two), "rank is 2, but size is 2")
  invalid(ring_init(rank = -1), "`rank` is -1: it must be 0 or more")
  invalid(ring_init(rank = 0.5), "`rank` must be one whole number, not 0.5")
  invalid(ring_init(rank = 0, size = 3, addresses = two), "2 addresses were given for size 3")
  invalid(ring_init(rank = 0, size = 0, addresses = two), "`size` is 0: it must be 1 or more")
  invalid(ring_init(size = 2), "rank is missing")
  invalid(ring_init(rank = 0, addresses = character()), "`addresses` is empty")
  invalid(ring_init(rank = 0, addresses = c("a", NA)), "`addresses` must be a character vector")
  invalid(ring_init(rank = 0, addresses = c("a", "b:x")), "address of rank 1 is bad")
  invalid(ring_init(rank = 0, size = 2), "no addresses were given")
  invalid(ring_init(rank = 0, addresses = two, ports = 5000), "`ports` must be the first and")
  invalid(ring_init(rank = 0, addresses = two, ports = c(9, 8)), "`ports` must be the first and")
  invalid(ring_init(rank = 0, addresses = two, timeout = 0), "`timeout` must be a positive number")
  invalid(ring_init(rank = 0, addresses = two, call_timeout = NA), "`call_timeout` must be a pos")
  invalid(ring_init(rank = 0, addresses = two, job = 1), "`job` must be one string, not 1")
  invalid(ring_init(rank = 0, addresses = two, token = raw()), "the token is empty")
  invalid(ring_init(NULL, 3), "`...` must be empty")
})

test_that("the error for a bad barrier argument names what it must be", {
  invalid <- function(barrier, message) {
    expect_error(ring_init(barrier), message, class = "ring_error_invalid")
  }
  invalid("127.0.0.1", "`barrier` must be a list with `address` and `partition`")
  invalid(list(address = "a"), "`barrier` must be a list with `address` and `partition`")
  invalid(list(address = list(), partition = 0), "`barrier\\$address` is empty")
  invalid(list(address = list(1), partition = 0), "`barrier\\$address` must be a character vector")
  invalid(list(address = "a", partition = "0"), "`barrier\\$partition` must be one whole number")
  invalid(list(address = "a", partition = 1L), "rank is 1, but size is 1")
  expect_error(
    ring_init(list(address = "a", partition = 0L), size = 1),
    "`barrier` has rank, size and addresses",
    class = "ring_error_invalid"
  )
})

test_that("the error for a closure that sparklyr calls in another way names the remedy", {
  invalid <- function(expression, message) {
    expect_error(expression, message, class = "ring_error_invalid")
  }
  # As its worker does, with its names: as many arguments as the closure has.
  # nolint start: object_name_linter.
  task <- list(address = list("a"), partition = 0)
  spark_worker_execute_closure <- function(closure, grouped_by, funcContext, barrier_map = task) {
    # nolint end
    barrier <- barrier_map
    groups <- lapply(grouped_by, function(name) 7)
    context <- if (!is.null(funcContext$user_context)) list(funcContext$user_context)
    given <- c(list(data.frame()), context, groups, list(barrier = barrier))
    do.call(closure, given[0:length(formals(closure))])
  }
  two <- function(df, barrier) ring_init(barrier)
  three <- function(df, group, barrier) ring_init(barrier)
  invalid(
    spark_worker_execute_closure(two, NULL, list(user_context = list(token = "x"))),
    "function\\(df, context, barrier\\), as `context` is given$"
  )
  invalid(spark_worker_execute_closure(two, "g", list()), "for each group of g, .*`group_by`")
  invalid(spark_worker_execute_closure(three, "g", list()), "for each group of g, .*`group_by`")
  one <- function(df) ring_init()
  invalid(
    spark_worker_execute_closure(one, NULL, list()),
    "no `barrier`: give the closure the argument, function\\(df, barrier\\), and call ring_init"
  )
  invalid(
    spark_worker_execute_closure(one, NULL, list(user_context = list(token = "x"))),
    "give the closure the argument, function\\(df, context, barrier\\)"
  )
  invalid(spark_worker_execute_closure(one, "g", list()), "for each group of g, .*`group_by`")
  closure <- function(df) ring_init(rank = 0, size = 1, addresses = "127.0.0.1")
  alone <- spark_worker_execute_closure(closure, NULL, list())
  expect_identical(ring_size(alone), 1L)
  ring_close(alone)
  alone <- spark_worker_execute_closure(one, NULL, list(), barrier_map = list())
  expect_identical(ring_size(alone), 1L)
  ring_close(alone)
  for (closure in list(one, two)) {
    spark_worker_apply_arrow <- function() spark_worker_execute_closure(closure, NULL, list())
    invalid(spark_worker_apply_arrow(), "for each batch of Arrow.*`arrow = FALSE`")
  }
})

test_that("bad arguments of collectives are errors, and the communicator goes on", {
  comm <- local_world()
  invalid <- function(expression, message) {
    expect_error(expression, message, class = "ring_error_invalid")
  }
  ops <- c("sum", "prod", "min", "max", "avg", "land", "lor", "lxor", "band", "bor", "bxor")
  ops <- paste0("\"", c(ops, "mean", "average"), "\"", collapse = ", ")
  invalid(ring_allreduce(comm, 1, "median"), paste("`op` is \"median\"; it must be one of", ops))
  invalid(ring_allreduce(comm, 1, NULL), "`op` must be one of \"sum\"")
  invalid(ring_allreduce(comm, 1, "lor"), "\"lor\" is for logical, integer and raw vectors")
  invalid(ring_broadcast(comm, 1, root = 1), "root 1 is no rank")
  invalid(ring_broadcast(comm, 1, root = -1), "`root` is -1")
  invalid(ring_broadcast(comm, 1, root = "0"), "`root` must be one whole number")
  invalid(ring_allreduce(1, comm), "`comm` must be a communicator")
  expect_identical(ring_allreduce(comm, 1), 1)
})

test_that("missing ranks are named when the time is up", {
  error <- tryCatch(
    ring_init(rank = 0, addresses = rep("127.0.0.1", 3), token = fresh_token(), timeout = 0.2),
    ring_error_timeout = identity
  )
  expect_match(conditionMessage(error), "1 of 3 ranks.*missing: rank")
  expect_s3_class(error, "ring_error_timeout")
})

test_that("the token is in no error", {
  text <- function(expression) {
    error <- tryCatch(expression, ring_error = identity)
    paste(format(conditionCall(error)), conditionMessage(error), collapse = " ")
  }
  refused <- text(ring_init(rank = 0, size = 2, token = "open sesame"))
  expect_match(refused, "token = `<hidden>`.*no addresses were given")
  refused <- text(ring_init(rank = 0, token = c("open", "sesame")))
  expect_match(refused, "token = `<hidden>`.*`token` must be one string or a raw vector$")
  expect_no_match(text(ring_init(rank = 0, tok = "open sesame")), "sesame")
  expect_no_match(text(ring_init(NULL, "open sesame")), "sesame")
  expect_no_match(
    text(ring_run(NULL, sum, num_proc = -1, options = list(token = "open sesame"))), "sesame"
  )
})

test_that("a short token is refused", {
  expect_error(
    ring_init(rank = 0, addresses = "localhost", token = as.raw(1:15)),
    "the token is too short, 15 bytes: give at least 16 random bytes, or none",
    class = "ring_error_invalid"
  )
})

test_that("a rank with another token is turned away", {
  results <- run_ranks(2, {
    tryCatch(open(token = tokens[[rank + 1]], timeout = 2), ring_error = identity)
  }, tokens = c(fresh_token(), fresh_token()))
  for (result in results) expect_s3_class(result, "ring_error")
})

# A failure may reach a rank that is still in open(), so that belongs to what is tried.

test_that("ranks that disagree all learn it, and go on failing", {
  results <- run_ranks(3, {
    comm <- NULL
    mismatch <- tryCatch(
      {
        comm <- open(call_timeout = 20)
        ring_allreduce(comm, double(10 + rank))
      },
      ring_error = identity
    )
    again <- if (is.null(comm)) mismatch else tryCatch(ring_barrier(comm), ring_error = identity)
    list(mismatch = mismatch, again = again)
  })
  for (result in results) {
    expect_s3_class(result$mismatch, "ring_error_mismatch")
    expect_match(conditionMessage(result$mismatch), "count 1[0-2], float64, sum")
    expect_s3_class(result$again, "ring_error_mismatch")
  }
})

test_that("a rank that dies is named to all others", {
  results <- run_ranks(3, {
    tryCatch(
      {
        comm <- open(call_timeout = 20)
        if (rank == 1) tools::pskill(Sys.getpid(), tools::SIGKILL)
        ring_allreduce(comm, 1)
      },
      ring_error = identity
    )
  }, lost = 1)
  for (result in results[c(1, 3)]) {
    expect_s3_class(result, "ring_error_peer_lost")
    expect_identical(result$rank, 1L)
    expect_match(conditionMessage(result), "rank 1")
  }
})

test_that("an abort reaches the other ranks with its reason", {
  results <- run_ranks(2, {
    tryCatch(
      {
        comm <- open(call_timeout = 20)
        if (rank == 1) ring_abort(comm, "the data is bad")
        ring_allreduce(comm, c(1, 2))
      },
      ring_error = identity
    )
  })
  for (result in results) {
    expect_s3_class(result, "ring_error_aborted")
    expect_match(conditionMessage(result), "the data is bad")
  }
})

test_that("a rank that ends without closing is an error for those that still need it", {
  results <- run_ranks(2, {
    tryCatch(
      {
        comm <- open(call_timeout = 20)
        if (rank == 0) ring_barrier(comm)
      },
      ring_error_aborted = conditionMessage
    )
  })
  expect_match(results[[1]], "rank 1 .*without closing it")
})
