# SPDX-License-Identifier: Apache-2.0
#
# What ring_apply() and ring_run() do on any Spark: on a connection of sparklyr (test-sparklyr-*.R),
# and on a session of PySpark (test-pyspark.R).

# nolint start: object_usage_linter. testthat provides these functions.
# A table that Spark makes itself.
spark_table <- function(sc, sql) {
  if (pyspark_is_session(sc)) return(sc$sql(sql))
  sparklyr::sdf_register(sparklyr::invoke(sparklyr::spark_session(sc), "sql", sql))
}

# A function as a script would make it.
of_script <- function(f) {
  environment(f) <- globalenv()
  f
}

expect_rows <- function(sc) {
  tbl <- spark_table(sc, paste(
    "SELECT id, if(id = 5, NULL, id / 4) AS x, if(id = 6, NULL, concat('\u00e9', id)) AS s,",
    "date_add(date'2020-01-01', cast(id AS int)) AS d, timestamp_seconds(id + 0.5) AS t,",
    "id > 5 AS l, array(id, 0.5D) AS a FROM range(0, 9, 1, 3) WHERE id >= 3"
  ))
  rows <- ring_apply(tbl, of_script(function(df, comm) df))
  expect_identical(rows$rank, rep(1:2, each = 3)) # the first partition is empty
  expect_identical(rows$id, as.double(3:8))
  expect_identical(rows$x, c(0.75, 1, NA, 1.5, 1.75, 2))
  expect_identical(rows$s, c(paste0("\u00e9", 3:5), NA, paste0("\u00e9", 7:8)))
  expect_equal(rows$d, as.Date("2020-01-01") + 3:8)
  expect_equal(as.double(rows$t), 3:8 + 0.5)
  expect_identical(rows$l, rep(c(FALSE, TRUE), each = 3))
  expect_identical(rows$a[[1]], c(3, 0.5))
  counts <- ring_apply(tbl, of_script(function(df, comm) {
    c(nrow(df), ring_allreduce(comm, sum(df$id)), ring_size(comm))
  }), num_proc = 2)
  expect_identical(counts, list(c(3, 33, 2), c(3, 33, 2)))
  sums <- ring_apply(tbl, of_script(~ ring_allreduce(.y, sum(.x$id))), num_proc = 2)
  expect_identical(sums, list(33, 33))
}

# Partitions of 0, 6 and 13 rows, as tests/spark/test_dataframe.py has them.
expect_parts <- function(sc) {
  tbl <- spark_table(sc, paste(
    "SELECT * FROM range(0, 300, 1, 3)",
    "WHERE id BETWEEN 100 AND 105 OR id BETWEEN 200 AND 212"
  ))
  ids <- of_script(function(df, comm) list(df$id, ring_allreduce(comm, sum(df$id))))
  parts <- list(numeric(), 100:105 + 0, 200:212 + 0)
  expect_identical(ring_apply(tbl, ids), lapply(parts, list, sum(unlist(parts))))
  expect_message(
    again <- ring_apply(tbl, of_script(function(df, comm) {
      ring_barrier(comm)
      if (ring_attempt(comm) == 0 && ring_rank(comm) == 1) tools::pskill(Sys.getpid(), 9)
      list(df$id, ring_allreduce(comm, sum(df$id)))
    }), max_restarts = 1),
    "rank 1 on .* was lost: .*SIGKILL.*; launching all ranks again \\(1 of 1 times\\)"
  )
  expect_identical(again, lapply(parts, list, sum(unlist(parts))))
  dealt <- ring_apply(tbl, of_script(function(df, comm) df$id), num_proc = 2)
  expect_identical(lengths(dealt), c(10L, 9L))
  expect_identical(unlist(dealt), unlist(parts))
  nothing <- spark_table(sc, "SELECT * FROM range(0, 300, 1, 3) WHERE id < 0")
  for (num_proc in list(NULL, 2)) {
    rows <- ring_apply(nothing, of_script(~ c(nrow(.x), ncol(.x))), num_proc = num_proc)
    expect_identical(unique(rows), list(c(0L, 1L)))
  }
  both <- spark_table(sc, paste(
    "SELECT * FROM range(0, 2, 1, 1) UNION ALL SELECT * FROM range(2, 9, 1, 2)"
  ))
  expect_identical(unlist(ring_apply(both, of_script(~ .x$id))), 0:8 + 0)
  expect_error(
    ring_apply(spark_table(sc, "SELECT * FROM range(0, 9, 1, 7)"), ids), "^7 ranks need",
    class = "ring_error_invalid"
  )
}

# Larger than what the driver's JVM could take.
expect_large <- function(sc) {
  f <- of_script(function(comm, n) if (ring_rank(comm) == 0) "small" else seq_len(n) + 0.5)
  values <- ring_run(sc, f, n = 3e7, num_proc = 2)
  expect_identical(values, list("small", seq_len(3e7) + 0.5))
  shared <- tempfile("shared")
  dir.create(shared)
  values <- ring_run(sc, f, n = 3e6, num_proc = 2, results = shared)
  expect_identical(values[[2]], seq_len(3e6) + 0.5)
  expect_identical(list.files(shared), character())
  unlink(shared, recursive = TRUE)
}

expect_failure <- function(sc) {
  error <- tryCatch(
    ring_run(sc, of_script(function(comm, culprit) {
      ring_barrier(comm)
      message("I am rank ", ring_rank(comm))
      if (ring_rank(comm) == culprit) stop("rank one has had enough")
      while (ring_rank(comm) > culprit) sqrt(2) # until it is ended
      ring_allreduce(comm, 1)
    }), culprit = 1, num_proc = 3),
    ring_error_remote = identity
  )
  expect_s3_class(error, "ring_error_remote")
  expect_identical(error$rank, 1L)
  expect_match(conditionMessage(error), "^rank 1 on .* failed: rank one has had enough")
  expect_match(error$traceback, "f(comm, culprit = args[[1L]])", fixed = TRUE)
  expect_identical(error$log, "I am rank 1")
}

# A rank is killed, the next time another fails, and the third time all goes well; each time all
# know what was before.
expect_restarts <- function(sc) {
  path <- tempfile("checkpoint")
  on.exit(unlink(path, recursive = TRUE))
  expect_message(expect_message(
    attempts <- ring_run(sc, of_script(function(comm, path) {
      attempt <- ring_attempt(comm)
      checkpoint <- ring_checkpoint(comm, path)
      before <- ring_restore(checkpoint, default = integer())
      ring_save(checkpoint, c(before, attempt))
      ring_barrier(comm)
      if (attempt == 0 && ring_rank(comm) == 1) tools::pskill(Sys.getpid(), 9)
      if (attempt == 1 && ring_rank(comm) == 0) stop("again")
      list(ring_allreduce(comm, attempt), before)
    }), path = path, num_proc = 2, max_restarts = 2),
    "rank 1 on .* was lost: .*; launching all ranks again \\(1 of 2 times\\)"
  ), "rank 0 on .* failed: again \\(attempt 1\\); launching all ranks again \\(2 of 2 times\\)")
  expect_identical(attempts, rep(list(list(4L, 0:1)), 2))
}
# nolint end
