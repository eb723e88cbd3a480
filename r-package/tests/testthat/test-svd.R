# SPDX-License-Identifier: Apache-2.0

# The columns of a matrix, with the signs of those of another.
aligned <- function(found, expected) {
  sweep(found, 2, sign(colSums(found * expected)), `*`)
}

# A matrix with these singular values.
graded <- function(rows, values) {
  set.seed(1)
  width <- length(values)
  left <- qr.Q(qr(matrix(rnorm(rows * width), rows)))
  left %*% (values * t(qr.Q(qr(matrix(rnorm(width^2), width)))))
}

test_that("singular values and vectors of all rows are those of svd()", {
  x <- graded(3000, 10^-c(0, 1, 3, 5, 7, 8))
  expect_gt(kappa(x, exact = TRUE), 0.99e8)
  results <- run_ring(3, {
    list(ring_svd(comm, one_empty(x, rank, size)), ring_svd(comm, dealt(x, rank, size), k = 2)$d,
         ring_svd(comm, dealt(x[1:4, ], rank, size), u = FALSE))
  }, x = x, dealt = dealt, one_empty = one_empty)
  truth <- svd(x)
  found <- results[[1]][[1]]
  expect_lt(max(abs(found$d - truth$d)), 4e-15)
  expect_lt(max(abs(found$d / truth$d - 1)), 1e-7) # eps times the condition
  expect_lt(max(abs(aligned(found$v, truth$v) - truth$v)), 1e-8)
  u <- do.call(rbind, lapply(results, function(result) result[[1]]$u))
  expect_lt(max(abs(crossprod(u) - diag(6))), 1e-13)
  expect_identical(nrow(results[[2]][[1]]$u), 0L)
  order <- c(seq(2, 3000, 2), seq(1, 3000, 2))
  expect_lt(max(abs(u %*% (found$d * t(found$v)) - x[order, ])), 1e-14)
  expect_equal(results[[3]][[2]], truth$d[1:2], tolerance = 1e-14)
  expect_length(results[[1]][[3]]$d, 4)
  expect_identical(results[[2]][[1]][c("d", "v")], found[c("d", "v")])
  # The way by the covariance, as in MLlib, has no digit of the smallest value.
  squared <- sqrt(abs(eigen(crossprod(x))$values))
  expect_gt(abs(squared[[6]] / truth$d[[6]] - 1), 1e-2)
})

test_that("random projections find the largest values of wide data", {
  x <- graded(120, c(5, 4, 3, 2, 1, rep(1e-9, 95))) %*% diag(100)[, rep(1:100, 3)]
  results <- run_ring(2, {
    set.seed(rank)
    ring_svd(comm, dealt(x, rank, size), k = 5, method = "random")
  }, x = x, dealt = dealt)
  truth <- svd(x, 5, 5)
  expect_equal(results[[1]]$d, truth$d[1:5], tolerance = 1e-12)
  expect_lt(max(abs(aligned(results[[1]]$v, truth$v) - truth$v)), 1e-8)
  u <- rbind(results[[2]]$u, results[[1]]$u)[order(c(seq(1, 120, 2), seq(2, 120, 2))), ]
  expect_lt(max(abs(aligned(u, truth$u) - truth$u)), 1e-8)
})

test_that("repeated rows and columns of zeros have the values of svd()", {
  set.seed(2)
  x <- matrix(rnorm(8 * 40), 8)[sample(8, 1000, TRUE), ]
  results <- run_ring(2, {
    set.seed(rank)
    rows <- dealt(x, rank, size)
    text <- function(...) tryCatch(ring_svd(comm, ...), error = conditionMessage)
    list(
      lapply(c(5, 12), function(k) ring_svd(comm, rows, k, method = "random")),
      ring_svd(comm, matrix(1, 25, 30), 2, method = "random"), ring_svd(comm, rows),
      ring_svd(comm, matrix(0, 3 * rank, 2)), text(rows, u = rank == 0), text(rows, u = rank + 1),
      text(rows, method = if (rank == 1) "none" else "qr"),
      tryCatch(ring_prcomp(comm, rows, rank. = 2, power = rank), error = conditionMessage),
      tryCatch(ring_prcomp(comm, rows, center = 1), error = conditionMessage),
      tryCatch(ring_scale(comm, rows, FALSE, scale = "a"), error = conditionMessage)
    )
  }, x = x, dealt = dealt)
  truth <- svd(x)
  for (k in 1:2) {
    found <- results[[1]][[1]][[k]]
    expect_lt(max(abs(found$d - truth$d[seq_along(found$d)])), 1e-11)
  }
  expect_equal(results[[1]][[2]]$d, c(sqrt(50 * 30), 0), tolerance = 1e-12)
  for (found in list(1, 3)) {
    parts <- lapply(results, function(result) if (found == 1) result[[1]][[2]] else result[[3]])
    u <- do.call(rbind, lapply(parts, `[[`, "u"))[, 1:8]
    expect_lt(max(abs(crossprod(u) - diag(8))), 1e-12)
    rebuilt <- u %*% (parts[[1]]$d[1:8] * t(parts[[1]]$v[, 1:8]))
    expect_lt(max(abs(rebuilt - x[c(seq(2, 1000, 2), seq(1, 1000, 2)), ])), 1e-12)
  }
  expect_identical(results[[1]][[4]]$d, c(0, 0))
  expect_match(results[[1]][[5]], "rank 1 has another u than rank 0: FALSE, and not TRUE")
  expect_match(results[[1]][[6]], "`u` must be TRUE or FALSE, not 1")
  expect_match(results[[1]][[7]], "rank 1 .* failed: `.*` must be one of")
  expect_match(results[[2]][[8]], "rank 1 has another power than rank 0")
  expect_match(results[[2]][[9]], "`center` must be TRUE or FALSE, or 40 numbers, one for each co")
  expect_match(results[[2]][[10]], "`scale` must be TRUE or FALSE, or 40 numbers, .*, not \"a\"")
  expect_error(.Call(C_triangle_add, 1, x, NULL, NULL, FALSE), "state must be NULL or [0-9]+ do")
  expect_error(.Call(C_columns_scaled, x, 1, NULL), "there are 40 columns, and not a double for e")
})

test_that("principal components are those of prcomp()", {
  x <- sweep(graded(2000, 10^-c(0, 2, 5, 8)), 2, c(1, -2, 0, 3), `+`)
  colnames(x) <- letters[1:4]
  results <- run_ring(3, {
    list(plain = ring_prcomp(comm, one_empty(x, rank, size)),
         scaled = ring_prcomp(comm, dealt(USArrests, rank, size), TRUE, scale. = TRUE, rank. = 2))
  }, x = x, dealt = dealt, one_empty = one_empty)
  plain <- results[[1]]$plain
  truth <- prcomp(x)
  expect_lt(max(abs(plain$sdev - truth$sdev)) / truth$sdev[[1]], 1e-14)
  expect_lt(max(abs(plain$sdev / truth$sdev - 1)), 1e-6)
  expect_equal(plain$center, truth$center, tolerance = 1e-14)
  expect_lt(max(abs(aligned(plain$rotation, truth$rotation) - truth$rotation)[, 1:3]), 1e-10)
  scaled <- results[[1]]$scaled
  truth <- prcomp(USArrests, scale. = TRUE, rank. = 2)
  expect_equal(scaled$sdev, truth$sdev, tolerance = 1e-12)
  expect_equal(summary(scaled)$importance, summary(truth)$importance, tolerance = 1e-12)
  expect_equal(aligned(scaled$rotation, truth$rotation), truth$rotation, tolerance = 1e-12)
  expect_equal(scaled$scale, truth$scale, tolerance = 1e-12)
  expect_equal(predict(scaled, USArrests[rownames(scaled$x), ]), scaled$x)
  expect_output(print(scaled), "Standard deviations")
})

test_that("components have the methods of prcomp() and broom", {
  comm <- local_world()
  fit <- ring_prcomp(comm, USArrests, scale. = TRUE)
  expect_equal(summary(fit)$importance, summary(prcomp(USArrests, scale. = TRUE))$importance)
  expect_error(ring_prcomp(comm, cbind(1, 1:3), scale. = TRUE), "constant/zero column to unit var")
  expect_error(ring_svd(comm, cbind(c(1, NA))), "column 1 has values that are not finite")
  expect_error(ring_svd(comm, iris), "must be numbers, and `Species` is a factor of length 150")
  expect_error(ring_svd(comm, diag(2), method = "random"), "needs `k`")
  expect_error(ring_svd(comm, iris[0]), "there are no columns", class = "ring_error_invalid")
  expect_error(ring_prcomp(comm, iris[0, 1:4], center = FALSE), "there are no rows on any rank")
  expect_error(ring_prcomp(comm, USArrests, scale. = c(1, 0, 1, 1)), "leave out column 2")
  expect_error(ring_prcomp(comm, USArrests, center = c(1, NA, 1, 1)), "or 4 numbers, one for each")
  set.seed(1)
  first <- ring_prcomp(comm, USArrests, scale. = TRUE, rank. = 2, method = "random")
  expect_equal(summary(first)$importance, summary(fit)$importance[, 1:2], tolerance = 1e-5)
  skip_if_not_installed("generics")
  expect_equal(generics::tidy(first)$percent, generics::tidy(fit)$percent[1:2])
  expect_equal(generics::tidy(fit)$cumulative[[4]], 1)
  expect_identical(nrow(generics::tidy(fit, "rotation")), 16L)
  expect_named(generics::augment(fit, USArrests), c(names(USArrests), paste0(".fittedPC", 1:4)))
})

test_that("columns are scaled by all rows", {
  results <- run_ring(2, {
    x <- dealt(airquality[1:4], rank, size)
    list(ring_scale(comm, x), ring_scale(comm, x, scale = FALSE))
  }, dealt = dealt)
  found <- rbind(results[[2]][[1]], results[[1]][[1]])[order(c(seq(1, 153, 2), seq(2, 153, 2))), ]
  expect_equal(found, scale(airquality[1:4]), ignore_attr = TRUE, tolerance = 1e-12)
  expected <- attr(scale(airquality[1:4]), "scaled:scale")
  expect_equal(attr(results[[1]][[1]], "scaled:scale"), expected)
  expect_null(attr(results[[1]][[2]], "scaled:scale"))
})
