# SPDX-License-Identifier: Apache-2.0
#
# ring_apply() and ring_run() on PySpark, classic or Spark Connect, by a session or a DataFrame in
# the Python of reticulate. Python launches an attempt as a barrier stage, deals the rows out, and
# starts R in each task (Python's spark/_r.py). The driver's side and the task's side are those of
# sparklyr: spark-barrier-job.R and spark-task.R.

pyspark_is_table <- function(x) {
  inherits(x, c("pyspark.sql.dataframe.DataFrame", "pyspark.sql.connect.dataframe.DataFrame"))
}

pyspark_is_session <- function(x) {
  inherits(x, c("pyspark.sql.session.SparkSession", "pyspark.sql.connect.session.SparkSession"))
}

# The session, also of a connection of pysparklyr; NULL for another object.
pyspark_session <- function(x) {
  if (inherits(x, "pyspark_connection")) x <- x$state$spark_context
  if (pyspark_is_session(x)) x
}

# The DataFrame, also of a table of pysparklyr; NULL for another object.
pyspark_frame <- function(x) {
  if (inherits(x, "tbl_pyspark")) x <- sparklyr::spark_dataframe(x)$pyspark_obj
  if (pyspark_is_table(x)) x
}

# A DataFrame as a table like `x`: for pysparklyr one of its tables.
pyspark_like <- function(frame, x) {
  if (!inherits(x, "tbl_pyspark") || !pyspark_is_table(frame)) return(frame)
  view <- paste0("sparkring_", random_hex(8))
  frame$createOrReplaceTempView(view)
  dplyr::tbl(sparklyr::spark_connection(x), view)
}

# ---- On the driver -------------------------------------------------------------------------------

pyspark_apply <- function(frame, job, num_proc, columns, packages, results, max_restarts) {
  python <- pyspark_import("sparkring.spark._r", "ring_apply()")
  frame <- pyspark_call(python$readable(frame))
  types <- pyspark_types(frame)
  job$kinds <- batches_kinds(types)
  if (job$rows == "matrix") batches_check_numbers(types, job$kinds)
  chosen <- do.call(frame$selectExpr, as.list(batches_select_sql(job$kinds)))
  session <- frame$sparkSession
  pyspark_run(session, job, chosen, num_proc, columns, packages, results, max_restarts)
}

# Spark's names for the types of the columns, by name.
pyspark_types <- function(frame) {
  unlist(pyspark_import("sparkring.spark._r", "ring_apply()")$types_of(frame))
}

# Runs the attempts. `frame` is NULL for ring_run().
pyspark_run <- function(session, job, frame, num_proc, columns, packages, results, max_restarts) {
  python <- pyspark_import("sparkring.spark._r", "ring_run()")
  here <- pyspark_call(python$is_here(session))
  pyspark_check_packages(packages, here)
  options <- job$options[names(job$options) %in% c("encryption", "ports", "timeout")]
  if (!is.null(options$ports)) options$ports <- check_ports(options$ports)
  program <- list(
    main = pyspark_closure, job = job[names(job) != "size"], libraries = if (here) .libPaths()
  )
  ranks <- pyspark_call(python$Ranks(
    session, serialize(program, NULL, version = 3L), file.path(R.home("bin"), "Rscript"),
    frame, if (!is.null(num_proc)) as.integer(num_proc),
    kept = !job$collect, progress = job$progress, results = results,
    options = options
  ))
  on.exit(ranks$close())
  size <- NULL # of the last attempt
  launch <- function(attempt) {
    rank_results <- pyspark_results(pyspark_call(ranks$launch(attempt)), attempt)
    size <<- length(rank_results)
    rank_results
  }
  values <- function(rank_results) {
    if (job$collect) return(rank_result_values(rank_results, columns))
    pyspark_table(ranks, kept_agree(rank_results, columns))
  }
  barrier_job_attempts(launch, function() size, values, max_restarts)
}

# R is installed on the executors. The driver sends its own packages to no host but its own.
pyspark_check_packages <- function(packages, here) {
  if (here || is.null(packages) || isFALSE(packages)) return()
  ring_stop("UNSUPPORTED", call = sys.call(-2), paste(
    "`packages` are sent by sparklyr, and this is a session of PySpark: install the packages in R",
    "on the executors, and leave `packages` out"
  ))
}

# The results of the ranks, or a condition for a rank that Spark has lost. `found` is the value of
# Python's Ranks.launch().
pyspark_results <- function(found, attempt) {
  if (!is.null(found$lost)) {
    return(rank_result_condition(
      found$lost, rank = found$rank, host = found$host, attempt = attempt,
      log = as.character(unlist(found$log))
    ))
  }
  if (!is.null(found$values$text)) {
    return(rank_result_read(as.data.frame(found$values, stringsAsFactors = FALSE)))
  }
  lapply(found$values, function(value) unserialize(as.raw(value)))
}

# The tables of all ranks as one DataFrame.
pyspark_table <- function(ranks, agreed) {
  view <- paste0("sparkring_", random_hex(8))
  pyspark_call(ranks$table(view, kept_sql(view, agreed, as.integer(ranks$keys()))))
}

# ---- In a task -----------------------------------------------------------------------------------

# Runs in R without this package, which may be missing: Python's Program takes status 69 for that.
pyspark_closure <- function(program, token, arguments) {
  .libPaths(c(program$libraries, .libPaths()))
  if (!suppressWarnings(require("sparkring", quietly = TRUE, character.only = TRUE))) {
    cat(file = arguments[[5L]], paste(
      "the package sparkring is not installed on", Sys.info()[["nodename"]], "in the libraries",
      paste(.libPaths(), collapse = ", "), "of R: install it there"
    ))
    quit("no", status = 69L)
  }
  get("pyspark_main", asNamespace("sparkring"))(program$job, token, arguments)
}
environment(pyspark_closure) <- globalenv()

# Runs a rank, and writes its result for Python. `arguments` are those of Python's arguments_of().
pyspark_main <- function(job, token, arguments) {
  barrier <- list(
    address = strsplit(arguments[[3L]], ",", fixed = TRUE)[[1L]],
    partition = as.integer(arguments[[1L]])
  )
  job$token <- token
  job$attempt <- as.integer(arguments[[2L]])
  job$size <- length(barrier$address)
  job$reports <- as.integer(arguments[[4L]])
  rows <- if (length(arguments) > 5L) data.frame(file = arguments[[6L]], stringsAsFactors = FALSE)
  rank_result <- task_run(rows, job, barrier)
  result <- results_file_open(arguments[[5L]], "wb")
  on.exit(close(result))
  if (job$collect) return(invisible(serialize(rank_result, result, version = 3L)))
  lines <- do.call(paste, c(rank_result_rows(rank_result), sep = "\t"))
  writeLines(lines, result, useBytes = TRUE)
}
