# SPDX-License-Identifier: Apache-2.0

blobs <- function(rows, k, width, spread = 1) {
  set.seed(1)
  matrix(rnorm(k * width, sd = 4), k)[sample(k, rows, TRUE), ] + rnorm(rows * width, sd = spread)
}

test_that("clusters are those of kmeans() from the same start", {
  x <- blobs(3000, 8, 5, 2) + 1000
  start <- x[c(1, 7, 50, 100, 200, 300, 400, 500), ]
  results <- run_ring(3, {
    text <- function(...) tryCatch(ring_kmeans(comm, x, 2, ...), error = conditionMessage)
    c(ring_kmeans(comm, one_empty(x, rank, size), start, tol = 0),
      texts = list(c(text(max_iter = if (rank == 1) 0 else 1), text(tol = rank))))
  }, x = x, start = start, one_empty = one_empty)
  truth <- kmeans(x, start, iter.max = 100, algorithm = "Lloyd")
  found <- results[[1]]
  expect_lt(difference(found$tot.withinss, truth$tot.withinss), 1e-10)
  expect_lt(difference(found$centers, truth$centers), 1e-12)
  expect_identical(found$size, truth$size)
  expect_equal(found$totss, truth$totss, tolerance = 1e-12)
  expect_equal(found$withinss, truth$withinss, tolerance = 1e-10)
  expect_true(found$converged)
  expect_identical(results[[3]]$cluster, truth$cluster[seq_len(3000) %% 2 == 1])
  expect_identical(predict(structure(found, class = "ring_kmeans"), x), truth$cluster)
  expect_match(found$texts[[1]], "rank 1 .* failed: `max_iter` is 0: it must be 1 or more")
  expect_match(found$texts[[2]], "rank 1 has another tol than rank 0")
  expect_identical(results[[2]]$centers, found$centers)
})

test_that("the start finds clusters that are apart", {
  x <- blobs(2000, 10, 3, 0.01)
  results <- run_ring(3, {
    set.seed(rank + 5)
    ring_kmeans(comm, dealt(x, rank, size), 10, nstart = 3)
  }, x = x, dealt = dealt)
  expect_lt(results[[1]]$tot.withinss, 1.1 * 2000 * 3 * 0.01^2)
  expect_identical(results[[2]]$withinss, results[[1]]$withinss)
})

test_that("a cluster without rows moves, and few different rows are no problem", {
  comm <- local_world()
  x <- blobs(200, 3, 2)
  far <- ring_kmeans(comm, x, rbind(x[1, ], c(1e3, 1e3), c(-1e3, 1e3)), tol = 0)
  expect_true(all(far$size > 0))
  expect_warning(same <- ring_kmeans(comm, matrix(1, 10, 2), 3), "clusters are empty")
  expect_identical(sum(same$size), 10L)
  expect_identical(same$tot.withinss, 0)
  expect_identical(ring_kmeans(comm, x, 1)$size, 200L)
  expect_identical(ring_kmeans(comm, c(1, 2, 9), matrix(c(1L, 9L)))$size, 2:1) # integers
  # Sums of the iterations keep rounding errors of rows that have left, and the result does not.
  drift <- c(rnorm(400), 4e10, 7e10, -4e10, -7e10)
  found <- ring_kmeans(comm, drift, matrix(c(0, 1, -1) * 1e11))$centers[[1]]
  expect_lt(abs(found - mean(drift[1:400])), 1e-14)
})

test_that("clusters have methods and errors", {
  comm <- local_world()
  set.seed(1)
  fit <- ring_kmeans(comm, iris[1:4], 3, nstart = 5)
  expect_equal(fit$tot.withinss, kmeans(iris[1:4], 3, nstart = 10)$tot.withinss, tolerance = 1e-3)
  expect_output(print(fit), "K-means with 3 clusters of sizes [0-9, ]+\n\nCluster means:\n")
  expect_identical(unname(predict(fit, iris)), unname(fit$cluster))
  unknown <- data.frame(iris[1:2, 1:3], Petal.Width = c(NA, 1))
  expect_identical(is.na(unname(predict(fit, unknown))), c(TRUE, FALSE))
  expect_error(predict(fit, iris[1:3]), "`newdata` has no column Petal.Width")
  expect_error(predict(fit, unname(as.matrix(iris[1:3]))), "`newdata` must have 4 columns, not 3")
  expect_error(ring_kmeans(comm, iris[1:4], "a"), "`centers` must be a number, or a matrix with 4")
  expect_error(ring_kmeans(comm, iris[1:2, 1:4], 3), "fewer rows than clusters")
  expect_error(ring_kmeans(comm, iris[0], 2), "there are no columns")
  expect_error(ring_kmeans(comm, c(1e160, 1, 2), 2), "squares of the values are not finite")
  start <- iris[c(1, 51, 101), 4:1]
  expect_identical(ring_kmeans(comm, iris[1:4], start)$centers,
                   ring_kmeans(comm, iris[1:4], start[4:1])$centers)
  expect_error(ring_kmeans(comm, airquality, 3), "column Ozone has values that are not finite")
  skip_if_not_installed("generics")
  expect_identical(generics::tidy(fit)$size, fit$size)
  expect_identical(generics::glance(fit)$iter, fit$iter)
  expect_identical(as.integer(generics::augment(fit, iris)$.cluster), unname(fit$cluster))
})
