# SPDX-License-Identifier: Apache-2.0
#
# Models of Spark tables.

# nolint start: object_usage_linter. testthat provides these functions.
# Models are fitted, and predict in any worker, to each of which Spark brings them once.
expect_models <- function(sc) {
  rows <- spark_table(sc, paste(
    "SELECT id, id * id / 10 AS y, if(id < 5, 'low', 'high') AS level FROM range(0, 12, 1, 3)"
  ))
  models <- ring_apply(rows, of_script(function(df, comm) {
    squares <- function(par) sum((df$y - par[1] - par[2] * df$id)^2)
    set.seed(1)
    list(
      glm = ring_glm(comm, y ~ id, data = df),
      mlp = ring_mlp(comm, level ~ id, data = df, hidden = 3),
      line = ring_optim(comm, c(0, 0), squares, method = "BFGS")$par
    )
  }))
  expect_identical(models[[1]]$line, models[[3]]$line)
  predicted <- sparklyr::spark_apply(
    rows, of_script(function(df, context) {
      loadNamespace("sparkring")
      data.frame(
        id = df$id, glm = as.double(predict(context$glm, df)),
        line = context$line[1] + context$line[2] * df$id,
        mlp = as.character(predict(context$mlp, df)), stringsAsFactors = FALSE
      )
    }),
    context = models[[3]], packages = FALSE, memory = FALSE,
    columns = c(id = "double", glm = "double", line = "double", mlp = "character")
  )
  predicted <- as.data.frame(sparklyr::sdf_collect(predicted))
  pooled <- stats::lm(y ~ id, data.frame(id = 0:11, y = (0:11)^2 / 10))
  expected <- unname(stats::fitted(pooled))[predicted$id + 1]
  expect_equal(predicted$glm, expected, tolerance = 1e-8)
  expect_equal(predicted$line, expected, tolerance = 1e-5)
  expect_identical(predicted$mlp, ifelse(predicted$id < 5, "low", "high"))
}

# The functions that begin with ml_, as sparklyr's.
expect_ml_functions <- function(cars) {
  fit <- ml_ring_glm(cars, am ~ wt, family = binomial, num_proc = 2)
  truth <- stats::glm(am ~ wt, binomial, mtcars)
  predicted <- sparklyr::ml_predict(fit, cars)
  expect_s3_class(predicted, "tbl_spark")
  predicted <- as.data.frame(sparklyr::sdf_collect(predicted))
  expected <- unname(stats::predict(truth, predicted, type = "response"))
  expect_equal(predicted[[".fitted"]], expected, tolerance = 1e-8)
  expect_equal(coef(update(fit, . ~ 1)), coef(update(truth, . ~ 1)), tolerance = 1e-8)
  expect_equal(sparklyr::tidy(fit)$estimate, unname(coef(truth)), tolerance = 1e-8)
  path <- tempfile("model")
  on.exit(unlink(path))
  sparklyr::ml_save(fit, path)
  expect_equal(coef(readRDS(path)), coef(fit))
  expect_error(sparklyr::ml_save(fit, path), "overwrite = TRUE")
  network <- ml_ring_mlp(cars, factor(am) ~ wt, hidden = 2, num_proc = 2)
  classes <- as.data.frame(sparklyr::sdf_collect(sparklyr::ml_predict(network, cars)))
  expect_identical(classes[[".fitted"]], as.character(predict(network, classes)))
  chances <- sparklyr::sdf_collect(sparklyr::ml_predict(network, cars, type = "prob"))
  expect_equal(chances[[".prob_0"]] + chances[[".prob_1"]], rep(1, 32), tolerance = 1e-12)
}

# A model of a table, from the driver, and lazy predictions.
expect_table_models <- function(sc) {
  cars <- sparklyr::sdf_copy_to(sc, mtcars, "cars", repartition = 3, overwrite = TRUE)
  fit <- ring_lm(cars, mpg ~ wt + factor(cyl) + poly(hp, 2), weights = qsec, num_proc = 2)
  truth <- stats::lm(mpg ~ wt + factor(cyl) + poly(hp, 2), mtcars, weights = qsec)
  expect_equal(coef(fit), coef(truth), tolerance = 1e-9)
  expect_equal(as.data.frame(drop1(fit)), as.data.frame(drop1(truth)), tolerance = 1e-8)
  predicted <- predict(fit, cars, interval = "confidence")
  expect_s3_class(predicted, "tbl_spark")
  predicted <- as.data.frame(sparklyr::sdf_collect(predicted))
  expected <- stats::predict(truth, predicted, interval = "confidence")
  expect_equal(predicted[[".upper"]], unname(expected[, "upr"]), tolerance = 1e-8)
  logit <- ring_glm(cars, am ~ wt, binomial)
  expect_equal(coef(logit), coef(stats::glm(am ~ wt, binomial, mtcars)), tolerance = 1e-8)
  expect_equal(nobs(update(logit, . ~ 1)), 32L)
  k <- 2 # of the driver
  counts <- ring_glm(cars, carb ~ wt + I(hp * vs / vs), poisson) # NaN in some rows
  truth <- stats::glm(carb ~ wt + I(hp * vs / vs), poisson, mtcars)
  expect_equal(as.data.frame(drop1(counts)), as.data.frame(drop1(truth)), tolerance = 1e-8)
  expect_equal(as.data.frame(add1(counts, ~ . + I(qsec^k))),
               as.data.frame(add1(truth, ~ . + I(qsec^k))), tolerance = 1e-8)
  expect_error(ring_lm(cars, mpg ~ wt, data = mtcars), "and not both")
  expect_error(ring_lm(cars), "`formula` must be a formula", class = "ring_error_invalid")
  expect_equal(coef(ring_lm(cars, "mpg ~ wt")), coef(stats::lm(mpg ~ wt, mtcars)))
  expect_ml_functions(cars)
  expect_error(residuals(fit), "residuals\\(\\) needs the rows on the ranks")
}

# Columns are carried along as they were, in any time zone of R and of Spark; errors name what is
# missing.
expect_carried <- function(sc) {
  old <- Sys.getenv("TZ", NA)
  on.exit(if (is.na(old)) Sys.unsetenv("TZ") else Sys.setenv(TZ = old))
  Sys.setenv(TZ = "Europe/Paris")
  tbl <- spark_table(sc, paste(
    "SELECT double(id) AS x, id + 0.5 AS y, if(id = 1, null, date'1969-12-31') AS `the.day`,",
    "timestamp'2018-03-25 01:30:00' AS t, 9223372036854775807 - id AS l, array(id, null) AS a,",
    "struct(id AS k) AS s, id = 1 AS b, binary('a') AS r, if(id < 3, 'p', 'q') AS f",
    "FROM range(0, 6, 1, 3)"
  ))
  sdf <- sparklyr::spark_dataframe(tbl)
  fitted <- "SELECT double(id) AS x, id + 0.5 AS y, if(id < 3, 'p', 'q') AS f FROM range(6)"
  fit <- ring_lm(spark_table(sc, fitted), y ~ x + f, num_proc = 2)
  found <- predict(fit, tbl, interval = "prediction", se.fit = TRUE)
  rows <- sparklyr::spark_dataframe(found)
  added <- c(".fitted", ".se.fit", ".lower", ".upper")
  expect_identical(unlist(sparklyr::invoke(rows, "columns"))[11:14], added)
  kept <- sparklyr::invoke(rows, "drop", as.list(added))
  expect_identical(sparklyr::invoke(sparklyr::invoke(kept, "exceptAll", sdf), "count"), 0)
  expect_identical(sparklyr::invoke(rows, "count"), 6)
  for (none in c("id > 100", "1 = 0")) {
    empty <- spark_table(sc, paste("SELECT id AS x, 'p' AS f FROM range(4) WHERE", none))
    expect_identical(nrow(sparklyr::collect(predict(fit, empty))), 0L)
  }
  tidied <- as.data.frame(sparklyr::collect(generics::augment(fit, newdata = tbl)))
  expect_equal(tidied$.resid, tidied$y - tidied$.fitted)
  expect_error(predict(fit, spark_table(sc, "SELECT 1.0D AS x")), "no column `f`",
               class = "ring_error_invalid")
  odd <- predict(fit, spark_table(sc, "SELECT 1.0D AS x, 'zz' AS f"))
  expect_error(sparklyr::collect(odd), "new level zz")
  expect_error(predict(fit, spark_table(sc, "SELECT 1.0D AS x, 'p' AS f, map(1, 2) AS m")),
               "column `m` is of Spark's type MapType")
}

# Functions of columns, from the driver.
expect_table_columns <- function(sc) {
  x <- mtcars[c("mpg", "wt", "hp", "qsec")]
  cars <- sparklyr::sdf_copy_to(sc, x, "columns", repartition = 3, overwrite = TRUE)
  lazy <- function(fit, ...) {
    found <- predict(fit, cars, ...)
    expect_s3_class(found, "tbl_spark")
    as.data.frame(sparklyr::sdf_collect(found))
  }
  columns <- c("wt", "qsec")
  clusters <- ring_kmeans(cars, columns, centers = x[c(1, 20), columns], num_proc = 2)
  truth <- stats::kmeans(x[columns], x[c(1, 20), columns], algorithm = "Lloyd")
  expect_equal(unname(clusters$centers), unname(truth$centers))
  found <- lazy(clusters)
  expect_identical(found[[".cluster"]], unname(predict(clusters, found)))
  scores <- ring_prcomp(cars, scale. = TRUE, rank. = 2)
  expect_equal(scores$sdev[1:2], prcomp(x, scale. = TRUE)$sdev[1:2])
  found <- lazy(scores)
  expect_equal(as.matrix(found[c("PC1", "PC2")]), predict(scores, found[names(x)]),
               ignore_attr = TRUE)
  lasso <- ring_glmnet(cars, y = "mpg", lambda = c(1, 0.1))
  expect_identical(lasso$names, c("wt", "hp", "qsec"))
  found <- lazy(lasso, s = 0.1)
  expect_equal(found[[".fitted"]], predict(lasso, found, 0.1)[, 1])
  path <- tempfile("model")
  on.exit(unlink(path))
  lasso <- ml_ring_glmnet(cars, mpg ~ wt + hp, lambda = 0.1, num_proc = 2)
  sparklyr::ml_save(lasso, path)
  expect_equal(coef(readRDS(path)), coef(ring_glmnet(cars, c("wt", "hp"), "mpg", lambda = 0.1)))
  clusters <- ml_ring_kmeans(cars, ~ wt + qsec, centers = 2, num_proc = 2, seed = 1)
  expect_identical(colnames(clusters$centers), columns)
  scores <- sparklyr::ml_predict(ml_ring_prcomp(cars, ~., num_proc = 2), cars)
  expect_true("PC4" %in% colnames(scores))
  expect_equal(ring_cor(cars, y = "mpg")[, 1], stats::cor(x[-1], x$mpg)[, 1])
  expect_equal(ring_quantile(cars, "hp", probs = 0.3)[[1]], stats::quantile(x$hp, 0.3)[[1]])
  expect_equal(ring_svd(cars, k = 1)$d, svd(x)$d[1])
  expect_equal(ring_summary(cars)$numbers$median, unname(vapply(x, stats::median, 1)))
  expect_error(ring_kmeans(cars, "weight", centers = 2), "not \"weight\": it has mpg, wt, hp, qsec")
}
# nolint end

test_that("models are fitted to Spark tables, and predict lazily", {
  sc <- spark_connection("local[3]")
  expect_models(sc)
  expect_table_models(sc)
  expect_carried(sc)
  expect_table_columns(sc)
})
