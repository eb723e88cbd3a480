# SPDX-License-Identifier: Apache-2.0

# The calls that the traceback of a rank shows when `f`, of a script, fails.
calls_of <- function(f) {
  frames <- NULL
  work <- serialize(list(f = f, args = list()), NULL)
  tryCatch(
    withCallingHandlers(
      task_call(work, NULL, NULL),
      error = function(error) if (is.null(frames)) frames <<- traceback_frames()
    ),
    error = identity
  )
  sub("^ *[0-9]+[.] ", "", strsplit(traceback_text(frames), "\n")[[1L]])
}

test_that("a traceback ends with the user's call, however the error is raised", {
  fails <- function(raise) {
    f <- eval(substitute(function(comm) {
      g <- function(x) raise
      g(1)
    }))
    calls_of(of_script(f))
  }
  expect_identical(fails(stop("text")), c("f(comm)", "g(1)"))
  expect_identical(fails(stop(simpleError("a condition"))), c("f(comm)", "g(1)"))
  expect_identical(fails(base::stop("qualified")), c("f(comm)", "g(1)"))
  expect_identical(fails(x + missing_one), c("f(comm)", "g(1)"))
  expect_identical(fails(stopifnot(x == 2)), c("f(comm)", "g(1)", "stopifnot(x == 2)"))
  expect_identical(fails(log("a")), c("f(comm)", "g(1)"))
  expect_identical(fails({
    options(warn = 2)
    on.exit(options(warn = 0))
    warning("now an error")
  }), c("f(comm)", "g(1)"))
  calls <- fails(lapply(1, function(i) stop("inside")))
  expect_identical(calls[c(1:2, 4)], c("f(comm)", "g(1)", "FUN(X[[i]], ...)"))
  calls <- fails(tryCatch(stop("inner"), error = function(error) stop("outer")))
  expect_identical(calls[-3], c("f(comm)", "g(1)", "value[[3L]](cond)"))
  calls <- fails(withCallingHandlers(stop("inner"), error = function(error) stop("outer")))
  expect_identical(calls[-3], c("f(comm)", "g(1)", "stop(\"inner\")", "h(simpleError(msg, call))"))
  skip_if_not_installed("rlang")
  expect_identical(fails(rlang::abort("text")), c("f(comm)", "g(1)"))
  expect_identical(fails(rlang::cnd_signal(rlang::error_cnd("own", message = "text"))),
                   c("f(comm)", "g(1)"))
})

test_that("of this package it shows the function that the user has called", {
  expect_identical(
    calls_of(of_script(function(comm) ring_allreduce(comm, "text"))),
    c("f(comm)", "ring_allreduce(comm, \"text\")")
  )
  calls <- calls_of(of_script(function(comm) ring_apply(1, function(df, comm) 1)))
  expect_identical(calls, c("f(comm)", "ring_apply(1, function(df, comm) 1)"))
})
