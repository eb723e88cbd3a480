# SPDX-License-Identifier: Apache-2.0
#
# The real thing: sparklyr hands its barrier argument to closures in R workers of a Spark stage. A
# connection takes long to make, so a test has many things to say.

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

# nolint start: object_usage_linter. What testthat gives to this code.
# A connection that ends with the calling test.
spark_connection <- function(master, envir = parent.frame()) {
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

# A table that Spark makes itself.
spark_table <- function(sc, sql) {
  sparklyr::sdf_register(sparklyr::invoke(sparklyr::spark_session(sc), "sql", sql))
}

# A function as a script would make it.
of_script <- function(f) {
  environment(f) <- globalenv()
  f
}

expect_ring <- function(ring, secured) {
  expect_identical(ring$total, c(21, 21, 21))
  expect_identical(sort(ring$rank), 0:2)
  expect_identical(unique(ring$ranks), "0 1 2")
  expect_match(ring$shown, paste0("rank [0-2] of 3 on .*, ", secured, ", open$"))
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

# Partitions of 0, 6 and 13 rows, as tests/spark/test_frame.py has them.
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
  nothing <- dplyr::filter(tbl, id < 0)
  for (num_proc in list(NULL, 2)) {
    rows <- ring_apply(nothing, of_script(~ c(nrow(.x), ncol(.x))), num_proc = num_proc)
    expect_identical(unique(rows), list(c(0L, 1L)))
  }
  both <- sparklyr::sdf_bind_rows(spark_table(sc, "SELECT * FROM range(0, 2, 1, 1)"),
                                  spark_table(sc, "SELECT * FROM range(2, 9, 1, 2)"))
  expect_identical(unlist(ring_apply(both, of_script(~ .x$id))), 0:8 + 0)
  expect_error(
    ring_apply(spark_table(sc, "SELECT * FROM range(0, 9, 1, 7)"), ids), "^7 ranks need",
    class = "ring_error_invalid"
  )
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

# The process that Spark has started is killed, so Spark alone can tell.
expect_lost <- function(sc) {
  error <- tryCatch(
    ring_run(sc, of_script(function(comm) {
      ring_barrier(comm)
      Sys.sleep(5) # the processes that supervise the ranks have met
      if (ring_rank(comm) == 1) tools::pskill(sparkring:::child_parent(), tools::SIGKILL)
      ring_barrier(comm)
    }), num_proc = 2),
    ring_error_remote = identity
  )
  expect_match(conditionMessage(error), paste(
    "^rank 1 on [^ ]+ was lost: its R process was killed by SIGKILL [(]status 137[)] [(]probably",
    "out of memory: raise spark.executor.memoryOverhead[)]$"
  ))
}

# Ctrl-C at the driver: no rank goes on, and there is room for others at once.
expect_interrupt <- function(sc) {
  file <- tempfile("pids")
  on.exit(unlink(file))
  ended <- tryCatch(
    ring_run(sc, of_script(function(comm, file, driver) {
      cat(sprintf("%d\n", Sys.getpid()), file = file, append = TRUE) # in one piece
      ring_barrier(comm)
      Sys.sleep(10) # the driver is met
      if (ring_rank(comm) == 0) tools::pskill(driver, tools::SIGINT)
      repeat sqrt(2)
    }), file = file, driver = Sys.getpid(), num_proc = 2),
    interrupt = function(condition) "interrupted"
  )
  expect_identical(ended, "interrupted")
  pids <- readLines(file)
  expect_length(pids, 2)
  expect_ended(pids, seconds = 30)
  # Replies that nobody has read, as interrupted waits of sparklyr leave them.
  request <- utils::getFromNamespace("write_bin_args", "sparklyr")
  for (text in c("stale", "sparklyr")) request(sc$backend, "Handler", TRUE, "echo", list(text))
  sums <- ring_run(sc, of_script(function(comm) ring_allreduce(comm, 1)), num_proc = 3)
  expect_identical(sums, list(3, 3, 3))
}

# Ctrl-C while R still starts on the executors: no rank goes on.
expect_early_interrupt <- function(sc) {
  system2("sh", c("-c", shQuote(paste("sleep 1.5; kill -INT", Sys.getpid()))), wait = FALSE)
  ended <- tryCatch(
    ring_run(sc, of_script(function(comm) repeat sqrt(2)), num_proc = 3),
    interrupt = function(condition) "interrupted"
  )
  expect_identical(ended, "interrupted")
  sums <- suppressMessages( # a loaded machine takes long
    ring_run(sc, of_script(function(comm) ring_allreduce(comm, 1)), num_proc = 3, timeout = 120)
  )
  expect_identical(sums, list(3, 3, 3))
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

# Programs of all ranks, one of which fails; without MPI, which may be absent.
expect_programs <- function(sc) {
  folder <- tempfile("programs")
  dir.create(folder)
  on.exit(unlink(folder, recursive = TRUE))
  write <- "echo $PMI_RANK of $PMI_SIZE $MINE >$PMI_RANK; exit $((PMI_RANK == CULPRIT))"
  run <- function(culprit) {
    ring_mpi(sc, "sh", c("-c", write), num_proc = 2, wd = folder,
             env = c(MINE = "yes", CULPRIT = culprit))
  }
  expect_null(run("9"))
  for (rank in 0:1) expect_identical(readLines(file.path(folder, rank)), paste(rank, "of 2 yes"))
  error <- tryCatch(run("1"), ring_error_aborted = identity)
  expect_identical(error$rank, 1L)
  expect_match(conditionMessage(error), "the program 'sh' failed with exit code 1; it has printed")
}

# What a closure is told from which no ring can come.
expect_refusals <- function(sc) {
  told <- function(f, columns = c(text = "character"), ...) {
    rows <- sparklyr::spark_apply(
      sparklyr::sdf_len(sc, 2, repartition = 2), of_script(f), columns, ..., barrier = TRUE,
      packages = FALSE
    )
    unique(as.data.frame(sparklyr::collect(rows))$text)
  }
  alone <- told(function(df) {
    comm <- tryCatch(sparkring::ring_init(), ring_error_invalid = conditionMessage)
    data.frame(text = format(comm), stringsAsFactors = FALSE)
  })
  expect_length(alone, 1)
  expect_match(alone, "give the closure the argument, function(df, barrier)", fixed = TRUE)
  grouped <- told(function(df, barrier) {
    comm <- tryCatch(sparkring::ring_init(barrier), ring_error_invalid = conditionMessage)
    data.frame(text = format(comm), stringsAsFactors = FALSE)
  }, c(id = "integer", text = "character"), group_by = "id")
  expect_length(grouped, 1)
  expect_match(grouped, "once for each group of id, .* leave out `group_by`")
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

# The driver is a process of its own, so that one can read what it shows.
expect_bar <- function(sc) {
  driver <- child_start(function() {
    options(cli.dynamic = TRUE, cli.progress_show_after = 0, cli.num_colors = 1L)
    ring_run(sc, of_script(function(comm) {
      for (step in 1:4) {
        ring_progress(comm, step, 4, loss = 1 / step)
        ring_barrier(comm)
        Sys.sleep(0.3)
      }
      ring_rank(comm)
    }), num_proc = 2, progress = TRUE)
  })
  shown <- raw()
  while (!is.null(bytes <- child_output(driver, 60))) shown <- c(shown, bytes)
  while (!child_ended(driver)) Sys.sleep(0.01)
  expect_identical(driver$value, list(0L, 1L))
  expect_match(rawToChar(shown), "[1-4]/4 loss (1|0[.][235]+)")
}

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
  expect_error(ring_lm(cars, mpg ~ wt, data = mtcars), "and not both")
  expect_ml_functions(cars)
  expect_error(residuals(fit), "residuals\\(\\) needs the rows on the ranks")
}
# nolint end

test_that("the tasks of spark_apply(barrier = TRUE) form a ring", {
  sc <- spark_connection("local[3]")
  expect_ring(spark_ring(sc, token = fresh_token()), "authenticated")
  ring <- spark_ring(sc, token = fresh_token(), encryption = TRUE, shared_memory = FALSE)
  expect_ring(ring, "authenticated, encrypted")

  expect_refusals(sc)

  # ring_apply() and ring_run(), whose ranks have a token of their own
  expect_rows(sc)
  expect_failure(sc)
  expect_interrupt(sc)
  expect_early_interrupt(sc)
  views <- sparklyr::invoke(sparklyr::invoke(sparklyr::spark_session(sc), "catalog"), "listTables")
  names <- as.data.frame(sparklyr::sdf_collect(sparklyr::sdf_register(sparklyr::invoke(
    views, "toDF"
  ))))$name
  expect_false(any(startsWith(names, "sparkring_")))
  expect_error(
    ring_run(sc, sum, num_proc = 4), "local\\[3\\] has 3: 3 cores / 1 per task",
    class = "ring_error_invalid"
  )

  expect_order(sc)
  expect_columns(sc)
  expect_parts(sc)
  expect_kept(sc)
  expect_no_files(sc)
  expect_large(sc)
  expect_programs(sc)
  expect_restarts(sc)
  expect_bar(sc)
  expect_models(sc)
  expect_table_models(sc)
})

test_that("ring_apply() and ring_run() work on two executors", {
  sc <- spark_connection("local-cluster[2,2,1024]")
  expect_rows(sc)
  expect_parts(sc)
  expect_kept(sc)
  expect_large(sc)
  expect_failure(sc)
  expect_programs(sc)
  expect_interrupt(sc)
  expect_lost(sc)
})
