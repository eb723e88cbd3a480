# SPDX-License-Identifier: Apache-2.0
#
# The real thing: sparklyr hands its barrier argument to closures in R workers of a Spark stage.

# What the tasks of a stage of three say.
spark_ring <- function(sc, ...) {
  ring <- sparklyr::spark_apply(
    sparklyr::sdf_len(sc, 6, repartition = 3),
    function(df, context, barrier) {
      comm <- do.call(sparkring::ring_init, c(list(barrier, timeout = 60), context))
      total <- sparkring::ring_allreduce(comm, as.double(sum(df$id)))
      ranks <- sparkring::ring_allgather(comm, sparkring::ring_rank(comm))
      shown <- format(comm)
      sparkring::ring_close(comm)
      data.frame(
        total = total, rank = sparkring::ring_rank(comm), ranks = paste(ranks, collapse = " "),
        shown = shown, stringsAsFactors = FALSE
      )
    },
    context = list(...), barrier = TRUE, packages = FALSE,
    columns = c(total = "double", rank = "integer", ranks = "character", shown = "character")
  )
  as.data.frame(sparklyr::collect(ring))
}

test_that("the tasks of spark_apply(barrier = TRUE) form a ring", {
  skip_if_not_installed("sparklyr")
  skip_if(Sys.getenv("SPARK_HOME") == "", "SPARK_HOME is not set, so there is no Spark")
  config <- sparklyr::spark_config()
  config$spark.r.libpaths <- paste(.libPaths(), collapse = ",")
  sc <- sparklyr::spark_connect("local[3]", spark_home = Sys.getenv("SPARK_HOME"), config = config)
  on.exit(sparklyr::spark_disconnect(sc))

  expect_ring <- function(ring, secured) {
    expect_identical(ring$total, c(21, 21, 21))
    expect_identical(sort(ring$rank), 0:2)
    expect_identical(unique(ring$ranks), "0 1 2")
    expect_match(ring$shown, paste0("rank [0-2] of 3 on .*, ", secured, ", open$"))
  }
  expect_ring(spark_ring(sc, token = fresh_token()), "authenticated")
  ring <- spark_ring(sc, token = fresh_token(), encryption = TRUE, shared_memory = FALSE)
  expect_ring(ring, "authenticated, encrypted")
})
