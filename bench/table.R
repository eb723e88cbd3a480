# SPDX-License-Identifier: Apache-2.0
#
# How long the rows of a Spark table take to R: to ranks by ring_apply(), beside collect(), which
# brings them to one process.
#
#   table.R [--rows N] [--rounds N]; scripts/bench --table calls it.
#
# The table has four columns of doubles in two partitions, and is cached. A round runs each job
# once. The first round is not counted: in it Java compiles. ring_run() is the same job without
# rows, which shows the time of the start of R and of the ring. Needs sparklyr, and SPARK_HOME.

option <- function(name, absent) {
  arguments <- commandArgs(TRUE)
  place <- match(paste0("--", name), arguments)
  if (is.na(place)) absent else as.numeric(arguments[[place + 1L]])
}

of_script <- function(f) {
  environment(f) <- globalenv()
  f
}

rows <- option("rows", 1e6)
rounds <- option("rounds", 5)

config <- sparklyr::spark_config()
config$spark.r.libpaths <- paste(.libPaths(), collapse = ",")
config$spark.ui.enabled <- "false"
sc <- suppressWarnings(
  sparklyr::spark_connect("local[2]", spark_home = Sys.getenv("SPARK_HOME"), config = config)
)
query <- sprintf(
  "SELECT rand(1) AS a, rand(2) AS b, rand(3) AS c, rand(4) AS d FROM range(0, %.0f, 1, 2)", rows
)
numbers <- sparklyr::sdf_register(
  sparklyr::invoke(sparklyr::spark_session(sc), "sql", query), "numbers"
)
sparklyr::tbl_cache(sc, "numbers")

jobs <- list(
  `collect()` = function() nrow(dplyr::collect(numbers)),
  `ring_apply(nrow)` = function() {
    sum(unlist(sparkring::ring_apply(numbers, of_script(function(df, comm) nrow(df)))))
  },
  `ring_apply(rows = "batches")` = function() {
    sum(unlist(sparkring::ring_apply(numbers, rows = "batches", of_script(function(batches, comm) {
      count <- 0
      while (!is.null(df <- batches())) count <- count + nrow(df)
      count
    }))))
  },
  `ring_run()` = function() {
    values <- sparkring::ring_run(sc, of_script(function(comm) 1), num_proc = 2)
    rows * (length(values) == 2L)
  }
)
seconds <- vapply(seq_len(rounds + 1), function(round) {
  vapply(jobs, function(job) {
    began <- proc.time()[["elapsed"]]
    stopifnot(job() == rows)
    proc.time()[["elapsed"]] - began
  }, 0)
}, double(length(jobs)))
sparklyr::spark_disconnect(sc)

median <- apply(seconds[, -1, drop = FALSE], 1, stats::median)
cat(sprintf("%.0f rows of 4 doubles, seconds (median of %d), times collect()\n", rows, rounds))
cat(sprintf("%-30s %6.2f %6.2f\n", names(jobs), median, median / median[["collect()"]]), sep = "")
