# SPDX-License-Identifier: Apache-2.0

samples <- lapply(1:3, function(i) sin(7 * i + seq_len(50)) + i)

test_that("every method finds what optim() finds on all rows, and the same on all ranks", {
  methods <- c("Nelder-Mead", "BFGS", "CG", "L-BFGS-B")
  fit <- function(optimiser, x) {
    value <- function(par) sum((x - par[[1]])^2) + length(x) * (par[[2]] - 3)^4
    gradient <- function(par) {
      c(-2 * sum(x - par[[1]]), length(x) * 4 * (par[[2]] - 3)^3)
    }
    optimise <- function(method, gr) {
      optimiser(c(a = 0, b = 1), value, gr, method = method, hessian = TRUE)
    }
    c(lapply(methods, optimise, gradient), lapply(methods, optimise, NULL))
  }
  environment(fit) <- list2env(list(methods = methods), parent = baseenv())
  results <- run_ring(3, {
    fit(function(...) ring_optim(comm, ...), samples[[rank + 1]])
  }, fit = fit, samples = samples)
  expect_equal(results[[1]], fit(optim, unlist(samples)), tolerance = 1e-6)
  expect_identical(results[[2]], results[[1]])
  expect_identical(results[[3]], results[[1]])
})

test_that("bounds, more arguments and maximising work", {
  results <- run_ring(2, {
    likelihood <- function(par, x) sum(dexp(x, par, log = TRUE))
    x <- (rank + 1) * c(0.5, 1)
    from <- if (rank == 0) 1 else 99 # only that of rank 0 counts
    list(
      ring_optim(comm, from, likelihood, x = x, method = "L-BFGS-B", lower = 1e-6,
                 control = list(fnscale = -1))$par,
      ring_optim(comm, 1, likelihood, x = x, method = "Brent", lower = 0, upper = 9,
                 control = list(fnscale = -1))$par,
      ring_optim(comm, 1, likelihood, x = x, method = "L-BFGS-B", lower = 1e-6, upper = 0.5,
                 control = list(fnscale = -1))$par
    )
  })
  expect_equal(results[[1]], list(4 / 4.5, 4 / 4.5, 0.5), tolerance = 1e-5)
  expect_identical(results[[2]], results[[1]])
})

test_that("an error on one rank is one on all, and the communicator goes on", {
  results <- run_ring(3, {
    text <- function(...) tryCatch(ring_optim(comm, c(1, 2), ...), error = conditionMessage)
    list(
      text(function(par) if (rank == 2 && par[[1]] > 1.05) stop("bad rows") else sum(par)),
      text(function(par) if (rank == 0) stop("bad rows") else sum(par)),
      text(sum, function(par) if (rank == 1) 1 else par, method = "BFGS"),
      text(function(par) Inf, method = "BFGS"),
      text(sum, method = "L-BFGS-B", control = list(maxit = "many")),
      ring_allreduce(comm, 1)
    )
  })
  at_fault <- function(item, rank) vapply(results, `[[`, "", item)[rank + 1L]
  expect_identical(at_fault(1, 0:2), rep(c("rank 2 (127.0.0.1) failed: bad rows", "bad rows"), 2:1))
  expect_identical(at_fault(2, 0:2), rep(c("bad rows", "rank 0 (127.0.0.1) failed: bad rows"), 1:2))
  expect_identical(at_fault(3, 1), "`gr` must return 2 numbers, not 1")
  expect_match(at_fault(3, c(0, 2)), "^rank 1 .* failed: `gr` must return 2 numbers, not 1$")
  expect_identical(at_fault(4, 0), "initial value in 'vmmin' is not finite")
  expect_match(at_fault(4, 1:2), "^rank 0 could not optimize: initial value in 'vmmin' is not fin")
  expect_match(at_fault(5, 1:2), "^rank 0 could not optimize: ")
  expect_identical(lapply(results, `[[`, 6), list(3, 3, 3))
})

test_that("what is different on one rank is named, and the communicator goes on", {
  results <- run_ring(3, {
    text <- function(...) tryCatch(ring_optim(comm, ...), error = conditionMessage)
    list(
      text(if (rank == 1) 1 else c(1, 2), sum),
      text(1, sum, if (rank == 2) identity, method = "BFGS"),
      text(1, if (rank == 0) 7 else sum),
      ring_allreduce(comm, 1)
    )
  })
  texts <- lapply(1:4, function(item) lapply(results, `[[`, item))
  differ <- function(one, other) {
    list(paste0(
      "the ranks differ: rank ", one, " `gr`, rank 0 ", other, " `gr`: pass the same on all ranks"
    ))
  }
  expect_identical(
    unique(texts[[1]]), differ("1 passed 1 parameters and no", "2 parameters and no")
  )
  expect_identical(unique(texts[[2]]), differ("2 passed 1 parameters and a", "1 parameters and no"))
  expect_match(unlist(texts[[3]][2:3]), "^rank 0 .* failed: `fn` must be a function")
  expect_identical(texts[[4]], list(3, 3, 3))
})

test_that("arguments that make no sense are named", {
  comm <- local_world()
  expect_error(ring_optim(comm, "a", sum), "`par` must be numbers", class = "ring_error_invalid")
  expect_error(ring_optim(comm, 1, 2), "`fn` must be a function", class = "ring_error_invalid")
  expect_error(ring_optim(comm, 1, sum, 2), "`gr` must be a function", class = "ring_error_invalid")
  expect_error(ring_optim(comm, 1, sum, method = "SANN"), "`method` must be one of")
})

test_that("strings of any length and language reach all ranks", {
  results <- run_ring(3, {
    mine <- list(c("a", "", "\u00e4\u20ac\n"), character(), "b")[[rank + 1]]
    list(allgather_strings(comm, mine), broadcast_strings(comm, if (rank == 0) mine))
  })
  expected <- c("a", "", "\u00e4\u20ac\n")
  for (result in results) {
    expect_identical(result, list(list(expected, character(), "b"), expected))
  }
})
