# SPDX-License-Identifier: Apache-2.0
#
# Rows of Spark tables to the ranks of ring_apply(), and results that stay in Spark.

# nolint start: object_usage_linter. testthat provides these functions.
# Columns are those that collect() makes. It adds the fraction of a second twice.
expect_columns <- function(sc) {
  tbl <- spark_table(sc, paste(
    "SELECT id, cast(id AS int) AS n, cast(id AS tinyint) AS y, cast(id / 4 AS float) AS f,",
    "if(id = 3, NULL, if(id = 4, double('NaN'), id / 3)) AS x, cast(id AS decimal(10, 2)) AS m,",
    "if(id = 5, NULL, concat('\u00e9', id)) AS s, if(id = 4, NULL, id > 5) AS l,",
    "if(id = 4, NULL, date_add(date'1969-12-30', cast(id AS int))) AS d,",
    "if(id = 4, NULL, timestamp_seconds(id * 1e6)) AS t, if(id = 4, NULL, cast(s AS binary)) AS b,",
    "if(id = 4, NULL, array(id, NULL)) AS al, if(id = 4, NULL, array(id / 4, NULL)) AS ad,",
    "if(id = 4, array(), array(cast(id AS int), NULL)) AS ai, array(id > 4, NULL) AS ab,",
    "if(id = 4, NULL, array(cast(id AS tinyint))) AS ay, array(current_date(), NULL) AS a_d,",
    "if(id = 4, NULL, array('\u00e9', s, NULL)) AS a_s, array(timestamp_seconds(id)) AS at,",
    "NULL AS v",
    "FROM (SELECT id, concat('b', id) AS s FROM range(3, 9, 1, 1))"
  ))
  rows <- ring_apply(tbl, of_script(function(df, comm) list(df)))[[1]][[1]]
  collected <- as.data.frame(dplyr::collect(tbl))
  for (name in setdiff(names(collected), c("t", "v"))) {
    expect_identical(rows[[name]], collected[[name]], label = name)
  }
  expect_equal(rows$t, collected$t) # a null is NA, not NaN
  expect_true(all(is.na(rows$v)))
  vectors <- sparklyr::ft_vector_assembler(
    sparklyr::sdf_len(sc, 4, repartition = 2), "id", "features"
  )
  rows <- ring_apply(vectors, of_script(function(df, comm) df))
  expect_identical(rows$features, dplyr::collect(vectors)$features)
  vectors <- sparklyr::invoke(sparklyr::spark_dataframe(vectors), "selectExpr",
                              list("if(id = 3, NULL, features) AS features"))
  vectors <- sparklyr::sdf_register(vectors)
  rows <- ring_apply(vectors, of_script(function(df, comm) df))
  expect_identical(rows$features, list(1, 2, NA, 4))
  # All that `.f` gets can stay in Spark.
  kept <- ring_apply(tbl, of_script(function(df, comm) df), collect = FALSE)
  again <- as.data.frame(dplyr::collect(kept))
  for (name in setdiff(names(collected), c("t", "v"))) {
    expect_identical(again[[name]], collected[[name]], label = name)
  }
}

# No file of rows remains, also after failures.
expect_no_files <- function(sc) {
  directory <- slots_conf(sparklyr::spark_context(sc), "spark.local.dir", "")
  tbl <- spark_table(sc, "SELECT * FROM range(0, 8, 1, 2)")
  opened <- ring_apply(tbl, rows = "batches", of_script(function(read, comm) {
    grep("/sparkring-rows", Sys.readlink(list.files("/proc/self/fd", full.names = TRUE)),
         value = TRUE)
  }))
  expect_identical(unique(dirname(unlist(opened))), directory)
  expect_error(ring_apply(tbl, of_script(~ stop("no"))), "no", class = "ring_error_remote")
  expect_error(ring_apply(tbl, of_script(~ quit("no", 3))), "exit code 3|quit",
               class = "ring_error_remote")
  expect_identical(list.files(directory, "^sparkring-rows"), character())
  session <- sparklyr::spark_session(sc)
  conf <- sparklyr::invoke(session, "conf")
  sparklyr::invoke(conf, "set", batches_codec, "lz4")
  expect_error(ring_apply(tbl, ~ 1), "compression.codec is lz4", class = "ring_error_unsupported")
  sparklyr::invoke(conf, "unset", batches_codec)
}

# Batches one after another, and results that stay in Spark; also after a restart.
expect_kept <- function(sc) {
  tbl <- spark_table(sc, "SELECT id, id / 4 AS x FROM range(0, 30000, 1, 2)")
  f <- of_script(function(batches, comm) {
    sizes <- integer()
    while (!is.null(df <- batches())) sizes <- c(sizes, nrow(df))
    ring_barrier(comm)
    if (ring_attempt(comm) == 0) stop("once")
    data.frame(size = sizes, odd = c(NA, "\u00e9 \"'\\")[seq_along(sizes)],
               at = as.Date("2020-01-01"), attempt = ring_attempt(comm), stringsAsFactors = FALSE)
  })
  expect_message(
    kept <- ring_apply(tbl, f, rows = "batches", collect = FALSE, max_restarts = 1),
    "once; launching"
  )
  expect_s3_class(kept, "tbl_spark")
  expect_identical(as.data.frame(dplyr::collect(kept)), data.frame(
    rank = rep(0:1, each = 2), size = rep(c(10000L, 5000L), 2), odd = rep(c(NA, "\u00e9 \"'\\"), 2),
    at = as.Date("2020-01-01"), attempt = 1L, stringsAsFactors = FALSE
  ))
  expect_identical(nrow(dplyr::collect(utils::head(kept, 1))), 1L) # it is no barrier stage
  expect_identical(sparklyr::sdf_nrow(sparklyr::sdf_bind_rows(kept, kept)), 8)
  expect_error(
    ring_apply(tbl, of_script(~ 1), collect = FALSE), "with `collect = FALSE` it must return a d",
    class = "ring_error_remote"
  )
}

# A table's rows are dealt out in its order; one with groups is refused.
expect_order <- function(sc) {
  tbl <- sparklyr::sdf_copy_to(
    sc, data.frame(n = 1:5000, x = cos(1:5000)), "numbers", repartition = 4, overwrite = TRUE
  )
  order <- as.data.frame(sparklyr::collect(tbl))$n
  rows <- ring_apply(tbl, of_script(function(df, comm) df), num_proc = 3)
  expect_identical(rows$n, order)
  expect_identical(rows$rank, rep(0:2, c(1667, 1667, 1666)))
  sorted <- ring_apply(dplyr::arrange(tbl, x), of_script(~ .x["x"]), num_proc = 2)
  expect_identical(sorted$x, sort(cos(1:5000)))
  expect_error(
    ring_apply(dplyr::group_by(tbl, n), ~ nrow(.x)), "grouped by n, .*pass dplyr::ungroup",
    class = "ring_error_invalid"
  )
}

# nolint end

test_that("ring_apply() gets the rows of a table", {
  sc <- spark_connection("local[3]")
  expect_rows(sc)
  expect_order(sc)
  expect_columns(sc)
  expect_parts(sc)
  expect_kept(sc)
  expect_no_files(sc)
  expect_large(sc)
})

test_that("ring_apply() gets the rows of a table on two executors", {
  sc <- spark_connection("local-cluster[2,2,1024]")
  expect_rows(sc)
  expect_parts(sc)
  expect_kept(sc)
  expect_large(sc)
})
