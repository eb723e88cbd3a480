# SPDX-License-Identifier: Apache-2.0
#
# ring_apply() and ring_run() on PySpark in the Python of reticulate. PySpark 4 and later bring a
# server of Spark Connect, and the session is one of Spark Connect.

# nolint start: object_usage_linter. testthat provides these functions.
# A session that ends with the calling test.
pyspark_started <- function(master, envir = parent.frame()) {
  skip_on_cran()
  skip_if_not_installed("reticulate")
  skip_if(Sys.getenv("SPARK_HOME") == "", "SPARK_HOME is not set, so there is no Spark")
  Sys.setenv(SPARK_WORKER_DIR = file.path(tempdir(), "work")) # before Python copies the environment
  skip_if_not(reticulate::py_module_available("sparkring.spark"), "Python has no sparkring")
  pyspark <- reticulate::import("pyspark")
  connects <- package_version(pyspark$`__version__`) >= "4.0"
  builder <- reticulate::import("pyspark.sql")$SparkSession$builder
  builder <- if (connects) builder$remote(master) else builder$master(master)
  for (name in c("spark.ui.enabled", "spark.ui.showConsoleProgress")) {
    builder <- builder$config(name, "false")
  }
  warnings <- reticulate::import("warnings")
  warnings$simplefilter("ignore") # PySpark tries to set again what the server was started with
  session <- builder$getOrCreate()
  do.call(on.exit, list(bquote(.(session)$stop()), add = TRUE), envir = envir)
  session
}

# A table of PySpark as a data frame. It has numbers and strings.
pyspark_rows <- function(frame) {
  columns <- frame$columns
  rows <- lapply(frame$collect(), function(row) row$asDict())
  columns <- lapply(stats::setNames(columns, columns), function(name) {
    unlist(lapply(rows, function(row) if (is.null(row[[name]])) NA else row[[name]]))
  })
  as.data.frame(columns, stringsAsFactors = FALSE)
}

expect_kept_pyspark <- function(session) {
  frame <- session$sql("SELECT id, id / 4 AS x FROM range(0, 30000, 1, 2)")
  f <- of_script(function(batches, comm) {
    sizes <- integer()
    while (!is.null(df <- batches())) sizes <- c(sizes, nrow(df))
    ring_barrier(comm)
    if (ring_attempt(comm) == 0) stop("once")
    data.frame(size = sizes, odd = c(NA, "\u00e9\t\"'\\")[seq_along(sizes)],
               attempt = ring_attempt(comm), stringsAsFactors = FALSE)
  })
  expect_message(
    kept <- ring_apply(frame, f, rows = "batches", collect = FALSE, max_restarts = 1),
    "once; launching"
  )
  expect_true(pyspark_is_table(kept))
  expect_identical(pyspark_rows(kept), data.frame(
    rank = rep(0:1, each = 2), size = rep(c(10000L, 5000L), 2),
    odd = rep(c(NA, "\u00e9\t\"'\\"), 2),
    attempt = 1L, stringsAsFactors = FALSE
  ))
  expect_identical(kept$union(kept)$count(), 8L) # it is no barrier stage
  expect_error(
    ring_apply(frame, of_script(~ 1), collect = FALSE), "with `collect = FALSE` it must return a d",
    class = "ring_error_remote"
  )
}

# Columns that sparklyr's test compares with those of collect().
expect_columns_pyspark <- function(session) {
  frame <- session$sql(paste(
    "SELECT if(id = 4, double('NaN'), if(id = 3, NULL, id / 4)) AS x, cast(id AS tinyint) AS y,",
    "cast(id AS decimal(10, 2)) AS m, if(id = 4, NULL, id > 3) AS l,",
    "if(id = 4, NULL, cast(s AS binary)) AS b,",
    "if(id = 4, NULL, array(cast(id AS int), NULL)) AS ai,",
    "if(id = 4, NULL, array('\u00e9', s, NULL)) AS a_s, NULL AS v",
    "FROM (SELECT id, concat('b', id) AS s FROM range(3, 6, 1, 1))"
  ))
  rows <- ring_apply(frame, of_script(function(df, comm) list(df)))[[1]][[1]]
  expect_identical(rows$x, c(NA, NaN, 1.25))
  expect_identical(rows$y, 3:5)
  expect_identical(rows$m, 3:5 + 0)
  expect_identical(rows$l, c(FALSE, NA, TRUE))
  expect_identical(rows$b, list(charToRaw("b3"), NA, charToRaw("b5")))
  expect_identical(rows$ai, list(c(3L, NA), NA, c(5L, NA)))
  expect_identical(rows$a_s[[3]], list("\u00e9", "b5", NA_character_))
  expect_identical(is.na(rows$v), c(TRUE, TRUE, TRUE))
  numbers <- frame$select("x", "y", "l")
  rows <- ring_apply(numbers, of_script(~ .x), rows = "matrix")[[1]]
  expect_identical(rows, cbind(x = c(NA, NaN, 1.25), y = 3:5, l = c(0, NA, 1)))
  expect_error(ring_apply(frame, ~ 1, rows = "matrix"), "column b is of Spark's type BinaryType",
               class = "ring_error_invalid")
  maps <- session$sql("SELECT map(1, 2) AS m")
  expect_error(ring_apply(maps, ~ 1), "column m is of Spark's type MapType",
               class = "ring_error_invalid")
  features <- reticulate::import("pyspark.ml.feature", convert = FALSE)
  ids <- session$range(1L, 5L, 1L, 2L)
  vectors <- features$VectorAssembler(inputCols = list("id"), outputCol = "features")$transform(ids)
  vectors <- vectors$selectExpr("if(id = 3, NULL, features) AS features")
  rows <- ring_apply(vectors, of_script(function(df, comm) df))
  expect_identical(rows$features, list(1, 2, NA, 4))
}

# The output and the progress of the ranks are shown as they come.
expect_output_pyspark <- function(session) {
  f <- of_script(function(comm) {
    cat("I am rank", ring_rank(comm), "\n")
    ring_progress(comm, 2, 3, loss = 0.25)
    warning("odd")
    message("even")
    ring_rank(comm)
  })
  shown <- reticulate::py_capture_output(
    expect_warning(expect_message(ring_run(session, f, num_proc = 2), "^even"), "^odd$")
  )
  expect_match(shown, "[0] I am rank 0", fixed = TRUE)
  expect_match(shown, "[1] I am rank 1", fixed = TRUE)
  expect_no_match(shown, "0.25", fixed = TRUE)
  shown <- reticulate::py_capture_output(
    suppressWarnings(suppressMessages(ring_run(session, f, num_proc = 2, progress = TRUE)))
  )
  expect_match(shown, "2(.0)?/3.*0[.]25|2 of 3.*0[.]25")
}

# Ctrl-C at the driver: no rank goes on, and there is room for others.
expect_interrupt_pyspark <- function(session) {
  file <- tempfile("pids")
  on.exit(unlink(file))
  ended <- tryCatch(
    ring_run(session, of_script(function(comm, file, driver) {
      cat(sprintf("%d\n", Sys.getpid()), file = file, append = TRUE) # in one piece
      ring_barrier(comm)
      if (ring_rank(comm) == 0) tools::pskill(driver, tools::SIGINT)
      repeat sqrt(2)
    }), file = file, driver = Sys.getpid(), num_proc = 2),
    interrupt = function(condition) "interrupted"
  )
  expect_identical(ended, "interrupted")
  pids <- readLines(file)
  expect_length(pids, 2)
  expect_ended(pids, seconds = 30)
  sums <- ring_run(session, of_script(function(comm) ring_allreduce(comm, 1)), num_proc = 3)
  expect_identical(sums, list(3, 3, 3))
}

expect_models_pyspark <- function(session) {
  frame <- session$createDataFrame(reticulate::r_to_py(mtcars))$repartition(3L)
  fit <- ring_glm(frame, am ~ wt + hp, family = binomial, num_proc = 2)
  local <- stats::glm(am ~ wt + hp, family = binomial, data = mtcars)
  expect_equal(stats::coef(fit), stats::coef(local), tolerance = 1e-6)
  expect_match(paste(deparse(fit$call), collapse = ""), "ring_glm(comm = frame", fixed = TRUE)
  expect_equal(stats::coef(ml_ring_lm(frame, mpg ~ wt)), stats::coef(stats::lm(mpg ~ wt, mtcars)))
  expect_equal(ring_cor(frame, x = c("mpg", "wt")), stats::cor(mtcars[c("mpg", "wt")]))
  expect_error(predict(fit, frame), "takes a table of sparklyr, and not of PySpark",
               class = "ring_error_unsupported")
}

# A process of a rank is killed: the R that supervises it, or the Python that has started that R.
expect_lost_pyspark <- function(session) {
  for (above in 1:2) {
    error <- tryCatch(
      ring_run(session, of_script(function(comm, above) {
        message("rank ", ring_rank(comm))
        ring_barrier(comm)
        parent <- sparkring:::child_parent()
        if (above == 2) parent <- sparkring:::spark_parent(parent, "/proc")
        if (ring_rank(comm) == 1) tools::pskill(parent, tools::SIGKILL)
        repeat sqrt(2)
      }), above = above, num_proc = 2),
      ring_error_remote = identity
    )
    expect_identical(error$rank, 1L)
    expect_match(conditionMessage(error), "^rank 1 on [^ ]+ .*killed by SIGKILL [(]probably out of")
    expect_identical(error$log, "rank 1")
  }
}
# nolint end

test_that("ring_run() and ring_apply() work on a session of PySpark", {
  session <- pyspark_started("local[4]")
  expect_rows(session)
  expect_columns_pyspark(session)
  expect_kept_pyspark(session)
  expect_large(session)
  expect_output_pyspark(session)
  expect_models_pyspark(session)
  expect_error(
    ring_run(session, sum, num_proc = 5), "local\\[4\\] has 4: 4 cores / 1 per task",
    class = "ring_error_invalid"
  )
  expect_error(ring_run(session, sum, num_proc = 2, options = list(ports = c(2, 1))), "ports",
               class = "ring_error_invalid")
})

test_that("ring_run() and ring_apply() on a session of PySpark end after a failure", {
  session <- pyspark_started("local[4]")
  expect_failure(session)
  expect_restarts(session)
  expect_lost_pyspark(session)
  expect_interrupt_pyspark(session)
})

test_that("ring_run() and ring_apply() work on two executors of PySpark", {
  session <- pyspark_started("local-cluster[2,2,1024]")
  expect_rows(session)
  expect_parts(session)
  expect_error(
    ring_run(session, sum, packages = TRUE), "install the packages in R on the executors",
    class = "ring_error_unsupported"
  )
})

test_that("a task of PySpark reports that R lacks the package", {
  skip_on_cran()
  folder <- tempfile("closure")
  dir.create(folder)
  on.exit(unlink(folder, recursive = TRUE))
  program <- file.path(folder, "program")
  saveRDS(list(main = pyspark_closure, job = list()), program)
  result <- file.path(folder, "result")
  code <- sprintf("program <- readRDS('%s'); program$main(program, raw(), c('', '', '', '', '%s'))",
                  program, result)
  status <- system2(
    file.path(R.home("bin"), "Rscript"), c("--vanilla", "-e", shQuote(code)), stdout = FALSE,
    env = c("R_LIBS=", "R_LIBS_USER=/nowhere", "R_LIBS_SITE=/nowhere")
  )
  expect_identical(status, 69L)
  expect_match(readLines(result, warn = FALSE), "^the package sparkring is not installed on .*: i")
})
