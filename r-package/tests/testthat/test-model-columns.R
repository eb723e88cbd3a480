# SPDX-License-Identifier: Apache-2.0
#
# Functions of columns of a Spark table. test-sparklyr-models.R has all of it, on Spark.

test_that("functions of columns get those of the table, and values of rows stay on the ranks", {
  results <- run_ring(2, {
    of_table <- function(name, roles = list(), args = list()) {
      rows <- dealt(mtcars, rank, size)
      x <- setdiff(names(mtcars), c(unlist(roles), "vs"))
      if (name %in% columns_of_numbers) rows <- as.matrix(rows)
      columns_rank(rows, comm, name, x, roles, args)
    }
    set.seed(rank)
    list(
      of_table("ring_kmeans", args = list(centers = 2)),
      of_table("ring_prcomp", args = list(scale. = TRUE)),
      of_table("ring_cor", roles = list(y = c("mpg", "hp"))),
      of_table("ring_glmnet", roles = list(y = "mpg", weights = "wt"), args = list(lambda = 0.1)),
      of_table("ring_quantile", args = list(probs = 0.5))
    )
  }, dealt = dealt)
  x <- mtcars[names(mtcars) != "vs"]
  found <- results[[1]]
  expect_null(found[[1]]$cluster)
  expect_identical(sum(found[[1]]$size), 32L)
  expect_equal(found[[2]]$sdev, prcomp(x, scale. = TRUE)$sdev, tolerance = 1e-12)
  expect_equal(found[[3]], cor(x[!names(x) %in% c("mpg", "hp")], x[c("mpg", "hp")]))
  comm <- local_world()
  truth <- ring_glmnet(comm, x[!names(x) %in% c("mpg", "wt")], x$mpg, weights = x$wt, lambda = 0.1)
  expect_equal(coef(found[[4]]), coef(truth), tolerance = 1e-6)
  expect_equal(found[[5]]["50%", ], vapply(x, median, 1))
  expect_identical(results[[2]], vector("list", 5))
})

test_that("columns of a table are named", {
  columns <- names(mtcars)
  expect_identical(columns_chosen(columns, NULL, list(y = "mpg", weights = "wt")),
                   setdiff(columns, c("mpg", "wt")))
  expect_identical(columns_chosen(columns, c("wt", "hp"), list()), c("wt", "hp"))
  expect_error(columns_chosen(columns, 3, list()),
               "`x` must be names of columns of the Spark table, not 3: it has mpg, cyl, disp",
               class = "ring_error_invalid")
  expect_error(columns_chosen(columns, NULL, list(y = "miles")), "`y` must be .*, not \"miles\"")
  expect_error(columns_chosen("y", NULL, list(y = "y")), "`x` must be names of columns")
  expect_error(columns_without_rows("ring_svd", list(u = TRUE)), "`u` must be FALSE for a Spark")
  expect_error(columns_without_rows("ring_prcomp", list(retx = NA)), "`retx` must be FALSE")
  expect_identical(columns_without_rows("ring_svd", list(k = 1)), list(k = 1, u = FALSE))
  named <- function(x, name = "ring_glmnet", ...) {
    columns_named_by(name, list(x = x, ...), c("y", "a", "b c"))
  }
  expect_identical(named(y ~ .), list(x = c("a", "b c"), y = "y"))
  expect_identical(named(~ `b c` + a), list(x = c("b c", "a")))
  expect_error(named(~ log(a)), "formula of columns, such as ~ a \\+ b, not ~log\\(a\\): compute")
  expect_error(named(~ a * y), "formula of columns")
  expect_error(named(y ~ a - 1), "pass `intercept = FALSE`")
  expect_error(named(y ~ a, y = "a"), "`x` has a response, y, and so has `y`: leave it out")
  expect_error(named(y ~ a, "ring_kmeans"), "`x` has a response, y: leave it out")
  checked <- function(name, args, spark = list()) columns_check_args(name, args, spark)
  expect_error(checked("ring_kmeans", list()), "`centers` is missing")
  expect_error(checked("ring_glmnet", list(x = "a")), "`y` is missing")
  expect_error(checked("ring_kmeans", list(centres = 3)), "there is no argument `centres`")
  expect_error(checked("ring_svd", list(), list(rows = "all")), "there is no argument `rows`")
})
