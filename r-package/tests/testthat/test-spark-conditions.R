# SPDX-License-Identifier: Apache-2.0
#
# Warnings and messages of ranks, raised on the driver.

test_that("warnings of ranks are raised once, with the ranks where they differ", {
  seen <- character()
  value <- withCallingHandlers(
    ring_run(NULL, function(comm) {
      for (i in 1:3) warning("of all")
      if (ring_rank(comm) > 0) warning("of some")
      suppressWarnings(warning("of none"))
      suppressMessages(message("nothing"))
      data <- data.frame(x = 1:4, y = c(0, 0, 1, 1))
      ring_glm(comm, y ~ x, binomial, data, control = list(maxit = 3))$converged
    }, num_proc = -3),
    warning = function(condition) {
      seen <<- c(seen, conditionMessage(condition))
      tryInvokeRestart("muffleWarning")
    }
  )
  expect_identical(value, list(FALSE, FALSE, FALSE))
  expect_identical(seen, c("of all", "ring_glm did not converge: see `control`",
                           "ranks 1, 2: of some"))
})

test_that("messages of ranks on Spark are raised, and neither too many nor too long ones", {
  collect <- function(code) {
    found <- NULL
    shown <- capture_messages(conditions_collect(code, FALSE, function(texts) found <<- texts))
    list(found = found, shown = shown)
  }
  few <- collect({
    message("a")
    packageStartupMessage("attached")
    suppressWarnings(warning("b"))
  })
  expect_identical(few$shown, c("a\n", "attached\n"))
  expect_identical(few$found, data.frame(kind = "message", text = "a\n"))
  many <- collect(for (i in 1:60) message(i, strrep("x", 2000)))$found
  expect_identical(dim(many), c(50L, 2L))
  expect_identical(max(nchar(many$text)), 1000L)
  results <- list(list(rank = 0L), list(rank = 1L, conditions = few$found))
  expect_identical(capture_messages(conditions_raise(results)), "rank 1: a\n")
  expect_identical(capture_messages(conditions_raise(results[2])), "a\n")
  expect_silent(conditions_raise(results[1]))
})

test_that("print() and summary() show that a fit has not converged", {
  comm <- local_world()
  fit <- suppressWarnings(ring_glm(comm, am ~ wt, binomial, mtcars, control = list(maxit = 1)))
  expect_output(print(fit), "The fit has not converged: see `control`")
  expect_output(print(summary(fit)), "The fit has not converged")
  fit <- ring_glm(comm, am ~ wt, binomial, mtcars)
  expect_false(any(grepl("converged", capture.output(print(fit), summary(fit)))))
  skip_if_not_installed("survival")
  fit <- suppressWarnings(ring_coxph(comm, survival::Surv(time, status) ~ age + sex,
                                     data = survival::lung, control = list(iter.max = 1)))
  expect_output(print(fit), "The fit has not converged")
  expect_output(print(summary(fit)), "The fit has not converged")
})
