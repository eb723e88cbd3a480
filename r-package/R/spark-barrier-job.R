# SPDX-License-Identifier: Apache-2.0
#
# An attempt of ring_apply() or ring_run() as a barrier stage of Spark: deals the rows out, starts
# the log server, submits the job, and reads the results of the ranks, or the error if Spark has
# lost a rank. Python's spark/_barrier_job.py does the same.

barrier_job_sql <- function(sc, sql) {
  sparklyr::invoke(sparklyr::spark_session(sc), "sql", sql)
}

# A setting of the session.
barrier_job_conf <- function(sc, name, default) {
  session <- sparklyr::spark_session(sc)
  sparklyr::invoke(sparklyr::invoke(session, "conf"), "get", name, default)
}

# The batches of a table as Spark's RDD, which is computed in the partitions of the table.
barrier_job_batches <- function(sc, sdf, kinds) {
  codec <- barrier_job_conf(sc, batches_codec, "none")
  if (codec != "none") {
    ring_stop("UNSUPPORTED", paste0(batches_codec, " is ", codec, ", and R cannot read compressed ",
                                    "rows: set it to none for this session"), call = NULL)
  }
  chosen <- sparklyr::invoke(sdf, "selectExpr", as.list(batches_select_sql(kinds)))
  sparklyr::invoke(chosen, "toArrowBatchRdd")
}

# Vectors of MLlib become arrays of doubles.
barrier_job_vectors <- function(sc, sdf, types) {
  for (name in names(types)[batches_is_vector(types)]) {
    column <- sparklyr::invoke(sdf, "col", batches_name(name))
    array <- sparklyr::invoke_static(
      sc, "org.apache.spark.ml.functions", "vector_to_array", column, "float64"
    )
    array <- sparklyr::invoke_static( # which fails for a null
      sc, "org.apache.spark.sql.functions", "when", sparklyr::invoke(column, "isNotNull"), array
    )
    sdf <- sparklyr::invoke(sdf, "withColumn", name, array)
  }
  sdf
}

barrier_job_keys <- function(sc, size) {
  hashes <- sparklyr::sdf_collect(barrier_job_sql(sc, batches_hashes_sql(size)), arrow = FALSE)
  batches_keys(hashes$parts, size)
}

# Makes a table of one partition for each rank, each with one row: the name of the file with the
# rows of the rank. `counts` has the rows of each partition if they are to be dealt out.
barrier_job_files <- function(sc, batches, size, counts = NULL) {
  session <- sparklyr::spark_session(sc)
  encoder <- function(type) sparklyr::invoke_static(sc, "org.apache.spark.sql.Encoders", type)
  dataset <- function(rdd, type) {
    sparklyr::invoke(sparklyr::invoke(session, "createDataset", rdd, encoder(type)), "toDF")
  }
  keys <- barrier_job_keys(sc, size)
  most <- barrier_job_conf(sc, batches_setting, "10000")
  lines <- barrier_job_view(dataset(batches, "BINARY"), function(tbl, view) {
    placed <- batches_place(view, size, counts, batches_most(most))
    barrier_job_sql(sc, batches_lines_sql(placed, keys))
  })
  lines <- sparklyr::invoke(sparklyr::invoke(lines, "as", encoder("STRING")), "rdd")
  dirs <- slots_conf(sparklyr::spark_context(sc), "spark.local.dir", "")
  dataset(sparklyr::invoke(lines, "pipe", batches_command(dirs)), "STRING")
}

# Counts the rows of each partition of `sdf`.
barrier_job_count <- function(sdf, kinds) {
  found <- barrier_job_view(
    sparklyr::invoke(sdf, "selectExpr", as.list(batches_place_sql(kinds))),
    function(tbl, view) {
      sql <- barrier_job_sql(sparklyr::spark_connection(tbl), batches_count_sql(view))
      sparklyr::sdf_collect(sql, arrow = FALSE)
    }
  )
  batches_counts(found$part, found$rows)
}

# Calls `code` with `sdf` as a table and the name of its view. The view is dropped with the call.
barrier_job_view <- function(sdf, code) {
  view <- paste0("sparkring_", random_hex(8))
  session <- sparklyr::spark_session(sparklyr::spark_connection(sdf))
  on.exit(sparklyr::invoke(sparklyr::invoke(session, "catalog"), "dropTempView", view))
  tbl <- sparklyr::sdf_register(sdf, view) # an interrupt may come meanwhile
  code(tbl, view)
}

barrier_job_run <- function(sc, job, make_table, columns, packages, results, timeout,
                           max_restarts) {
  call <- sys.call(-1)
  directory <- results_directory(
    results, slots_local(sparklyr::invoke(sparklyr::spark_context(sc), "master")), call
  )
  launch <- function(attempt) {
    job$size <<- slots_wait(sc, job$size, timeout, attempt)
    job$token <- random_bytes(32)
    job$attempt <- attempt
    table <- make_table(job$size)
    host <- slots_conf(sparklyr::spark_context(sc), "spark.driver.host", "localhost")
    server <- log_server_start(host, job$progress)
    over <- FALSE
    on.exit(log_server_stop(server, over))
    job$log_server <- server$endpoint
    limit <- slots_conf(sparklyr::spark_context(sc), results_maximum, "1g")
    results <- results_open(host, job$size, directory, limit)
    on.exit(results_close(results), add = TRUE)
    job$results <- results$route
    rows <<- barrier_job_launch(job, table, packages)
    over <- TRUE
    results_fetch(rows$rank_results, results)
  }
  rows <- NULL # of the last attempt
  values <- function(rank_results) {
    if (job$collect) return(rank_result_values(rank_results, columns))
    barrier_job_table(sc, rows$kept, kept_agree(rank_results, columns), job$size)
  }
  barrier_job_attempts(launch, function() job$size, values, max_restarts)
}

# Launches the ranks until they succeed or no restart is left. launch() returns their results, or
# the condition for a rank that Spark has lost. values() makes the value of the call of them.
barrier_job_attempts <- function(launch, size, values, max_restarts) {
  for (attempt in seq_len(max_restarts + 1L) - 1L) {
    rank_results <- launch(attempt)
    lost <- inherits(rank_results, "condition")
    error <- if (lost) rank_results else rank_result_judge(rank_results, size(), attempt)
    if (is.null(error)) {
      conditions_raise(rank_results)
      return(values(rank_results))
    }
    if (attempt == max_restarts) stop(error)
    first <- strsplit(conditionMessage(error), "\n", fixed = TRUE)[[1L]][[1L]]
    message("sparkring: ", first, "; launching all ranks again (", attempt + 1L, " of ",
            max_restarts, " times)")
  }
}

# Returns the results of the ranks as `rank_results`, or there the condition for a rank that Spark
# has lost. Where tables stay in Spark, `kept` is the rows of all ranks, which Spark keeps. Without
# arrow, which calls the closure for each batch of rows, and without the cache, which would keep the
# results.
#
# Two settings halve the time that R takes to start: R compiles no function of sparklyr's worker,
# which runs once (task_child() lets R compile again), and sparklyr makes the table of the task by
# tibble, with `single_binary_column`, and loads no dplyr.
barrier_job_launch <- function(job, table, packages) {
  sc <- sparklyr::spark_connection(table)
  tryCatch({
    rows <- barrier_job_view(table, function(tbl, view) {
      sparklyr::spark_apply(
        tbl, task_closure,
        columns = task_columns, memory = FALSE, packages = packages, context = job,
        barrier = TRUE, arrow = FALSE, env = list(R_ENABLE_JIT = "0"),
        single_binary_column = barrier_job_has_tibble(sc, packages)
      )
    })
    kept <- if (!job$collect) {
      sparklyr::invoke(sparklyr::spark_dataframe(rows), "localCheckpoint", TRUE)
    }
    if (!is.null(kept)) rows <- sparklyr::invoke(kept, "where", "pieces >= 0")
    rows <- as.data.frame(sparklyr::sdf_collect(rows, arrow = FALSE))
    list(rank_results = rank_result_read(rows), kept = kept)
  }, error = function(error) {
    list(rank_results = barrier_job_explain(
      error, job$attempt, function(stage, rank) barrier_job_host(sc, stage, rank)
    ))
  })
}

# Whether the tasks are known to have tibble: it is sent, or R finds it where it finds sparkring.
barrier_job_has_tibble <- function(sc, packages) {
  if (isTRUE(packages)) return(TRUE)
  found <- dirname(find.package(c("tibble", "sparkring"), quiet = TRUE))
  slots_local(sparklyr::invoke(sparklyr::spark_context(sc), "master")) && length(found) == 2L &&
    found[[1L]] %in% c(found[[2L]], .Library, .Library.site)
}

# The tables of all ranks as one table of Spark.
barrier_job_table <- function(sc, kept, agreed, size) {
  keys <- barrier_job_keys(sc, size)
  strings <- sparklyr::invoke(kept, "where", "pieces = -1")
  rows <- barrier_job_view(strings, function(tbl, view) {
    barrier_job_sql(sc, kept_sql(view, agreed, keys))
  })
  sparklyr::sdf_register(sparklyr::invoke(rows, "localCheckpoint", TRUE))
}

# Finds in Spark's error the rank that Spark has lost. Raises the error itself where no rank was
# lost. find_host() returns the host of a task.
barrier_job_explain <- function(error, attempt, find_host = function(stage, rank) "") {
  text <- barrier_job_unwrap(conditionMessage(error))
  large <- results_explain(text)
  if (!is.null(large)) stop(large)
  task <- "barrier task \\w+\\(([0-9]+), ([0-9]+)\\) finished unsuccessfully[.]\\s*([^\n]*)"
  found <- regmatches(text, regexec(task, text))[[1L]]
  lost <- length(found) > 0L || grepl("worker rscript failure", text, fixed = TRUE)
  if (inherits(error, "ring_error") || !lost) stop(error)
  why <- if (length(found) > 0L) barrier_job_why(found[[4L]]) else "its R process ended"
  rank <- if (length(found) > 0L) as.integer(found[[3L]]) else NA_integer_
  host <- if (length(found) > 0L) find_host(as.integer(found[[2L]]), rank) else ""
  what <- paste0("was lost: ", rank_result_advise(why))
  condition <- rank_result_condition(what, rank = rank, host = host, attempt = attempt)
  condition$parent <- error
  condition
}

# Undoes the line breaks that sparklyr puts into Spark's text.
barrier_job_unwrap <- function(text) gsub("[ ]*\n(?![\n\t])", " ", text, perl = TRUE)

# Reads a signal from an exit status above 128, as shells and sparklyr report it. The only
# subprocess of Spark itself is batches_command().
barrier_job_why <- function(text) {
  text <- sub(" Driver stacktrace:.*$", "", text)
  if (grepl("Subprocess exited with status", text, fixed = TRUE)) {
    return(paste("its rows could not be written to a file of its executor: is the disk of",
                 "SPARK_LOCAL_DIRS full? The executor's log has the reason"))
  }
  status <- "^.*sparklyr worker rscript failure with status ([0-9]+).*$"
  if (!grepl(status, text)) return(text)
  code <- as.integer(sub(status, "\\1", text))
  if (!(code - 128L) %in% child_signals) return(paste("its R process failed with exit code", code))
  paste0("its R process ", child_how(list(code = 128L - code)), " (status ", code, ")")
}

# The host on which Spark has run a task of a stage; "" where Spark does not have it.
barrier_job_host <- function(sc, stage, rank) {
  tryCatch({
    store <- sparklyr::invoke(sparklyr::spark_context(sc), "statusStore")
    attempt <- sparklyr::invoke(sparklyr::invoke(store, "lastStageAttempt", stage), "attemptId")
    tasks <- sparklyr::invoke(store, "taskList", stage, attempt, .Machine$integer.max)
    for (i in seq_len(sparklyr::invoke(tasks, "size"))) {
      task <- sparklyr::invoke(tasks, "apply", i - 1L)
      if (sparklyr::invoke(task, "index") == rank) return(sparklyr::invoke(task, "host"))
    }
    ""
  }, error = function(error) "")
}
