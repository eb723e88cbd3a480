# SPDX-License-Identifier: Apache-2.0
#
# Real Spark, for the tests of sparklyr.

# nolint start: object_usage_linter. testthat provides these functions.
# A connection that ends with the calling test.
spark_connection <- function(master, envir = parent.frame()) {
  skip_on_cran()
  skip_if_not_installed("sparklyr")
  home <- Sys.getenv("SPARK_HOME")
  skip_if(home == "", "SPARK_HOME is not set, so there is no Spark")
  work <- tempfile("work") # of the executors of a local-cluster
  before <- Sys.getenv("SPARK_WORKER_DIR", NA)
  Sys.setenv(SPARK_WORKER_DIR = work)
  config <- sparklyr::spark_config()
  config$spark.r.libpaths <- paste(.libPaths(), collapse = ",")
  config$spark.ui.enabled <- "false"
  config$sparklyr.apply.packages <- FALSE # executors have this library
  config$sparklyr.connect.timeout <- 150 # of a loaded machine
  config$spark.local.dir <- tempfile("local") # also of the rows
  sc <- suppressWarnings(sparklyr::spark_connect(master, spark_home = home, config = config))
  if (is.na(before)) Sys.unsetenv("SPARK_WORKER_DIR") else Sys.setenv(SPARK_WORKER_DIR = before)
  end <- bquote({
    sparklyr::spark_disconnect(.(sc))
    unlink(.(c(work, config$spark.local.dir)), recursive = TRUE)
  })
  do.call(on.exit, list(end, add = TRUE), envir = envir)
  sc
}
# nolint end
