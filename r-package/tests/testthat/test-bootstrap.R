# SPDX-License-Identifier: Apache-2.0

mean_of <- function(data, weights, comm) {
  sums <- ring_allreduce(comm, c(sum(weights), colSums(weights * data)))
  sums[-1] / sums[[1]]
}
environment(mean_of) <- asNamespace("sparkring")

test_that("replicates have the distribution of the statistic, and are the same in each run", {
  results <- run_ring(3, {
    data <- as.matrix(one_empty(mtcars[c("mpg", "wt")], rank, size))
    set.seed(rank)
    before <- .Random.seed
    first <- ring_bootstrap(comm, data, mean_of, R = 400, seed = 7, groups = 32)
    counts <- ring_bootstrap(comm, data, function(data, weights, comm) {
      ring_allreduce(comm, c(sum(weights), sum(weights^2)))
    }, R = 200, seed = 3, groups = 0)
    list(first, ring_bootstrap(comm, data, mean_of, R = 2, seed = 7, groups = 0)$t,
         identical(before, .Random.seed), counts$t,
         tryCatch(ring_bootstrap(comm, data, mean_of, R = 3 - rank), error = conditionMessage))
  }, mean_of = mean_of, one_empty = one_empty)
  fit <- results[[1]][[1]]
  expect_match(results[[1]][[5]], "rank 2 .* failed: `R` is 1: it must be 2 or more")
  expect_identical(results[[3]][[1]]$t, fit$t)
  expect_identical(results[[1]][[2]], fit$t[1:2, ])
  expect_true(all(vapply(results, `[[`, NA, 3)))
  expect_equal(fit$t0, colMeans(mtcars[c("mpg", "wt")]))
  error <- sapply(mtcars[c("mpg", "wt")], function(x) sqrt(mean((x - mean(x))^2) / 32))
  expect_equal(apply(fit$t, 2, sd), error, tolerance = 0.12)
  # Each replicate has 32 rows; a row is drawn once in the mean, with a variance of 31 / 32.
  expect_identical(unique(results[[1]][[4]][, 1]), 32)
  expect_equal(mean(results[[1]][[4]][, 2]), 32 * (1 + 31 / 32), tolerance = 0.03)
})

test_that("intervals are those of boot.ci()", {
  comm <- local_world()
  data <- as.matrix(mtcars[c("mpg", "hp")])
  fit <- ring_bootstrap(comm, data, mean_of, R = 599, seed = 1, groups = 32)
  expect_equal(fit$L[, 1], (mtcars$mpg - mean(mtcars$mpg))[c(1:32)])
  centered <- fit$t[, 1] - fit$t0[[1]]
  expect_equal(confint(fit, 1, type = "norm")[1, ],
               fit$t0[[1]] - mean(centered) + c(-1, 1) * qnorm(0.975) * sd(centered),
               ignore_attr = TRUE)
  expect_equal(confint(fit, "mpg", type = "perc"), quantile(fit$t[, 1], c(0.025, 0.975), type = 6),
               tolerance = 1e-3, ignore_attr = TRUE)
  expect_error(confint(ring_bootstrap(comm, data, mean_of, R = 9, groups = 0)), "need a jackknife")
  expect_warning(confint(fit, 1, 0.999, "perc"), "too few replicates")
  expect_output(print(fit), "original +bias std. error\nmpg")
  expect_error(ring_bootstrap(comm, data, "mean"), "`statistic` must be a function")
  expect_error(ring_bootstrap(comm, data, function(data, weights, comm) "a"), "must return numbers")
  # Replicates that are not finite are left out, as in boot.ci().
  odd <- fit
  odd$t[c(3, 8), 1] <- c(NaN, Inf)
  rest <- fit
  rest$t <- fit$t[-c(3, 8), ]
  for (type in c("norm", "basic", "perc", "bca")) {
    expect_warning(found <- confint(odd, "mpg", type = type), "2 of 599 replicates of mpg are not")
    expect_identical(found, confint(rest, "mpg", type = type))
  }
  expect_output(print(odd), "Replicates that are not finite, left out: 2, 0")
  odd$L[5, 2] <- NaN
  expect_error(confint(odd, 2), "BCa interval of hp needs finite values of the jackknife")
  odd$t0[[2]] <- 1e6
  odd$L[5, 2] <- 0
  expect_error(confint(odd, 2), "all replicates are on one side of the statistic")
  expect_error(confint(odd, "wt"), "`parm` is \"wt\": the statistics are mpg, hp")
  odd$t[-1, 2] <- NaN
  expect_error(confint(odd, 2, type = "norm"), "has returned 1e.06 as hp of all rows, and 1 f")
  skip_if_not_installed("boot")
  whole <- boot::boot(data, function(d, i) colMeans(d[i, ]), R = 599)
  whole$t <- unname(fit$t)
  for (i in 1:2) {
    expected <- boot::boot.ci(whole, c(0.9, 0.95), c("norm", "basic", "perc", "bca"), index = i,
                              L = fit$L[, i])
    for (type in c("norm", "basic", "perc", "bca")) {
      field <- c(norm = "normal", basic = "basic", perc = "percent", bca = "bca")[[type]]
      table <- expected[[field]]
      expect_equal(unname(confint(fit, i, 0.95, type)[1, ]), unname(table[2, ncol(table) - 1:0]),
                   tolerance = 1e-12, info = type)
    }
  }
})
