# SPDX-License-Identifier: Apache-2.0
#
# ring_apply() and ring_run(), and the checks of their arguments. spark-barrier-job.R has the rest
# of the driver's side, and spark-task-main.R the side of the ranks. Python's sparkring.spark.run
# does the same.

#' Run a function on the ranks of a ring, as the tasks of a Spark barrier stage
#'
#' `ring_apply()` calls a function on each rank with a part of the rows of a Spark table.
#' `ring_run()` calls a function on each rank without a table. Both pass an open communicator to the
#' function, and close it afterwards. Both return the values of all ranks.
#'
#' @details
#' The function `.f` is called once on each rank. It must not call [ring_init()]. A rank without
#' rows gets a data frame with no rows. `ring_apply()` and `ring_run()` check that there are enough
#' task slots before they start anything. They give the ranks a token of their own, through the
#' `context` of `sparklyr::spark_apply()`, so that no other process can join.
#'
#' On an executor, `.f` runs in a forked child of the R process that Spark's task has started. The
#' parent supervises the child: it copies the output of `.f` to the executor's log, and it ends the
#' child when another rank has failed.
#'
#' For trials and debugging, `ring_run(NULL, f, num_proc = -2)` runs `f` in two processes of this
#' machine, without Spark and sparklyr. The output of the ranks is shown, with the rank before each
#' line. With [ring_progress()] there is a progress bar. The processes end when this process ends or
#' is interrupted.
#'
#' @param .x A Spark table of a sparklyr connection, without groups, or a DataFrame of PySpark. Its
#'   columns are numbers, logicals, strings, dates, timestamps, binary, vectors of MLlib, or arrays
#'   of these. They become the vectors that `dplyr::collect()` makes of them: integers of 64 bits
#'   and decimals become doubles, a binary or array column becomes a list of vectors, an array of
#'   strings a list of strings, and a null `NA`, also in a list. Unlike there, the fractions of
#'   seconds are right.
#' @param .sc A connection, from `sparklyr::spark_connect()`, or a session of PySpark. With a
#'   negative `num_proc` it is ignored, and may be `NULL`.
#' @param .f A function or a formula. `ring_apply()` calls `.f(df, comm, ...)`, where `df` is a data
#'   frame of the rows of the rank (a tibble, if tibble is installed), unless `rows` says otherwise.
#'   `ring_run()` calls `.f(comm, ...)`. In a formula, as in `sparklyr::spark_apply()`, `.x` is the
#'   first argument, `.y` the second, and `..3` the third: `~ nrow(.x)`. `.f` is sent by
#'   [serialize()], with its environment, unless that is the global environment. So pass the values
#'   that `.f` needs in `...`, and call functions of packages as `package::name()`.
#' @param ... Further arguments of `.f`, by name or position. An argument of `.f` must not have the
#'   name of an argument of `ring_apply()` or `ring_run()`, such as `timeout`.
#' @param columns The columns of the result, if `.f` returns data frames: a character vector of
#'   names, or of types with names, as in `c(total = "double")`. The types are double, integer,
#'   character, logical, date, timestamp, factor and list. `NULL`: the columns that `.f` returns.
#' @param num_proc The number of ranks, a whole number.
#'   * `NULL` for `ring_apply()`: the number of partitions of the table. The rows of a partition
#'     stay together, in their order.
#'   * `NULL` for `ring_run()`: the number of free slots.
#'   * A positive number for `ring_apply()`: the rows are distributed evenly, in their order, so
#'     rank 0 gets the first rows. Spark counts the rows first, and so computes the table twice,
#'     unless it is cached (`sparklyr::tbl_cache()`).
#'   * A negative number, for `ring_run()` only: this number of processes of this machine, without
#'     Spark.
#' @param packages The packages to send to the executors, as for `sparklyr::spark_apply()`: a
#'   character vector of names, the path of a bundle, or `TRUE` for all packages that are installed
#'   here. `FALSE`: none, as the executors have sparkring and the packages that `.f` needs. `NULL`:
#'   the value of `sparklyr.apply.packages` in the configuration of the connection, else `TRUE`;
#'   with a local master `FALSE`. On PySpark the executors have the packages, and others than
#'   `NULL` and `FALSE` are an error.
#' @param seed A seed for the random numbers of the ranks, one whole number. Rank `r` gets the
#'   stream that is `r` calls of [parallel::nextRNGStream()] after that of [set.seed()]
#'   (L'Ecuyer-CMRG). The numbers are the same in each run and each attempt. The generator of this
#'   process is not changed. `NULL`: R seeds each rank from its clock and process number, so the
#'   numbers differ between ranks and between runs.
#' @param results The path of a directory that the executors and this machine share, for values
#'   above 16 MiB. The files are removed after the call. `NULL`: ranks send such values to this
#'   machine. See *Large values*.
#' @param timeout The time limit of the rendezvous of the ranks, in seconds, from the start of each
#'   attempt. Also the limit of the wait for free slots.
#' @param max_restarts How often to launch all ranks again after a rank has failed, a whole number.
#'   [ring_attempt()] returns the number of the attempt, and [ring_checkpoint()] keeps a state.
#' @param progress Whether to show the reports of [ring_progress()], `TRUE` or `FALSE`. By default
#'   they are shown only without Spark. On Spark a process that is forked from this process shows
#'   them, on the standard error, if R runs in a terminal. Executors must be able to connect to this
#'   host (`spark.driver.host`); else nothing is shown.
#' @param rows What `.f` gets of its rows.
#'   * `"all"`: a data frame of all rows of the rank.
#'   * `"batches"`: a function of `reset`. Called without arguments it returns a data frame of the
#'     next rows, and `NULL` after the last. With `reset = TRUE` it begins again, and returns
#'     `NULL`. A rank holds one batch at a time, so the rows of a rank may be larger than its
#'     memory. A batch has up to `spark.sql.execution.arrow.maxRecordsPerBatch` rows, 10000 by
#'     default.
#'   * `"matrix"`: a matrix of doubles with all rows of the rank. The columns of the table are
#'     numbers and logicals. It takes less time than a data frame.
#' @param collect Whether to collect the values of the ranks, `TRUE` or `FALSE`. With `FALSE`, `.f`
#'   returns data frames, and their rows stay in Spark. `ring_apply()` returns a Spark table of the
#'   rows. Spark keeps the rows in its executors, and does not run `.f` again. The rows are lost
#'   with their executor. Columns are numbers, strings, factors, logicals, dates, times, raw vectors
#'   in a list, and lists of vectors of the other types. A column has one type on all ranks, where
#'   integers may be doubles and `NA` is of any type. Names differ by more than upper case.
#' @param options A list of further arguments of [ring_init()], such as
#'   `list(call_timeout = 3600, encryption = TRUE)`. The range `ports` must be large enough for two
#'   rings, because the tasks of the ranks have a ring of their own, and on PySpark for four.
#' @param timeline A directory, in which each rank writes its timeline on its host, see
#'   [ring_timeline_start()]. Where this process sees the files of all ranks, as in a directory that
#'   the hosts share, it merges them into `timeline.json` there, also after a failure. `NULL`: none.
#'
#' @returns If `.f` returns a data frame on every rank: one data frame (a tibble, if tibble is
#'   installed) with the rows of all ranks in rank order, and the rank in the first column, `rank`.
#'   A column has one class on all ranks, where `NA` is of any class.
#'   Else a list with the values of `.f` in rank order, of any type that [serialize()] supports. The
#'   values of all ranks are collected: if they are equal, return the value from one rank only. With
#'   `collect = FALSE` a Spark table (`tbl_spark`) with the same columns and rows.
#'
#' @section PySpark and Spark Connect:
#' `.sc` and `.x` may be a session and a DataFrame of PySpark in the Python of reticulate, classic
#' or of Spark Connect, and so a connection and a table of pysparklyr. The driver's Python and that
#' of Spark's workers need the package sparkring of Python, and the executors also R with this
#' package. Each task of Spark starts `Rscript`. The output of the ranks is shown as it comes, with
#' the rank before each line, if executors can reach this process. With `collect = FALSE` the result
#' is a DataFrame of PySpark, or a table of pysparklyr; on Spark Connect it needs Spark 4. `results`
#' may also be a URL, such as `hdfs://...`.
#'
#' @section GPUs:
#' Request GPUs in the configuration of the connection, from `config <- sparklyr::spark_config()`:
#' `config$spark.executor.resource.gpu.amount`, `config$spark.task.resource.gpu.amount` and
#' `config$spark.executor.resource.gpu.discoveryScript`, by which executors find their GPUs. The
#' slots are counted with these settings. They cannot be set for a single call, because sparklyr
#' passes no resource profile to a stage. In `.f`, call `ring_gpus(comm, count)`: it gives each rank
#' its own GPUs.
#'
#' @section Groups:
#' A table with `dplyr::group_by()` is an error. Ranks must make the same calls on the communicator,
#' so `.f` cannot be called once for each group of a rank. Remove the grouping with
#' `dplyr::ungroup()`, and group the rows within `.f`. To have all rows of a group on one rank, call
#' `sparklyr::sdf_repartition(tbl, partitions, partition_by = "group")`, and leave out `num_proc`.
#'
#' @section Rows:
#' Spark packs the rows into batches of Arrow, and shuffles the batches to the ranks. A restart does
#' not compute the table again, unless an executor was lost. R reads the batches without the package
#' arrow. Spark holds whole batches in memory, several times for a while, and R takes a batch of up
#' to 1.5 GiB. So lower `spark.sql.execution.arrow.maxRecordsPerBatch` in the configuration of Spark
#' where rows are wide, such as images. With `rows = "batches"` R holds one batch at a time, and
#' Spark spills the others to disk.
#'
#' Before R starts, a task writes the batches of its rank to a file in the local directory of its
#' executor (`SPARK_LOCAL_DIRS` or `spark.local.dir`, else `TMPDIR` or `/tmp`). The file takes about
#' 1.4 times the size of the batches. Only the user of the executor can read it, but it is not
#' encrypted, also if `spark.io.encryption.enabled` is set. It has no name any more when `.f` runs,
#' and it is gone when the rank has ended. If R cannot start, the file `sparkring-rows.*` remains
#' until the directory is removed, which Spark does only with the directory of an executor.
#'
#' @section Large values:
#' Spark returns a value of up to 16 MiB, as it returns the result of `spark_apply()`. With more
#' than 8 ranks the limit is 128 MiB divided by the number of ranks. A larger value is sent by its
#' rank, after all ranks have ended, on an encrypted connection to this machine. Executors must be
#' able to connect to `spark.driver.host`. If they cannot, pass a shared directory as `results`.
#' Without either, the call fails with `ring_error_unsupported`; the message has the size and the
#' remedy.
#'
#' Files hold a large value on the way, in the temporary directories of the rank and of this R (see
#' [tempdir()]). Both disks need space for the value.
#'
#' @section Interrupts:
#' Ctrl-C, or a time limit of [setTimeLimit()], ends the call and, within seconds, the ranks,
#' whatever they compute. Rank 0 detects the end of the call by an authenticated and encrypted
#' connection to a process that is forked from this process. That process ends with the call. After
#' an interrupt it stays at most two minutes, for ranks whose R has not started yet.
#'
#' Executors must be able to connect to `spark.driver.host`. If they cannot, an interrupt does not
#' end the ranks: sparklyr cancels the job, and R runs on. The next call then waits until R has
#' ended. It reports that after 20 seconds, and times out after `timeout`.
#'
#' @section Warnings:
#' When all ranks have succeeded, the call raises the warnings and messages of `.f`, each text once.
#' A text that not all ranks have begins with their numbers, as in `rank 1: ...`. Up to 50 texts of
#' a rank are kept. Without Spark messages are shown as they come, with the other output.
#'
#' @section Errors:
#' If a rank fails, in the last attempt, the call raises `ring_error_remote` for the rank at fault.
#' The condition has these elements: `rank`, an integer; `host`, a string; `attempt`, an integer;
#' `traceback`, a string with the calls; `log`, the last 20 lines that the rank has printed; and
#' `parent`, the condition of the rank. It also has the classes and elements of `parent`, so
#' `tryCatch()` catches it by the class of `parent`.
#'
#' The other ranks fail in their next call on the communicator. A rank that makes no call is ended
#' after 5 seconds, whatever it computes. A rank is at fault, too, if its process was killed, has
#' crashed or has called `quit()`: the message has the signal or the exit code. If Spark has lost
#' the rank, `parent` is Spark's error, and `log` is empty.
#'
#' Before the ranks start, the call fails with:
#' * `ring_error_invalid`: an argument is invalid, or there are too few slots. The message has the
#'   arithmetic of the slots.
#' * `ring_error_timeout`: other tasks hold the slots until `timeout`.
#' * `ring_error_unsupported`: Spark cannot run barrier stages, as with dynamic allocation.
#'
#' See [ring_error].
#'
#' @seealso [ring_glm()], [ring_optim()] and [ring_mlp()], for models in `.f`; [ring_progress()],
#'   [ring_checkpoint()] and [ring_gpus()], for `.f`; [ring_init()], for closures of
#'   `spark_apply(barrier = TRUE)` that open the communicator themselves; [ring_launch()], for
#'   scripts.
#' @examples
#' \dontrun{
#' # Needs Spark.
#' sc <- sparklyr::spark_connect(master = "local[4]")
#' cars <- sparklyr::copy_to(sc, mtcars, overwrite = TRUE)
#' ring_apply(cars, function(df, comm) {
#'   total <- ring_allreduce(comm, c(sum(df$mpg), nrow(df)))
#'   data.frame(rows = nrow(df), mean = total[1] / total[2])
#' }, num_proc = 4)
#'
#' models <- ring_apply(cars, ~ ring_glm(.y, mpg ~ wt, data = .x), num_proc = 4)
#' ring_run(sc, function(comm, x) ring_allreduce(comm, x * ring_rank(comm)), x = 2)
#' }
#' \donttest{
#' # Two processes of this machine, without Spark.
#' ring_run(NULL, function(comm) ring_allreduce(comm, ring_rank(comm)), num_proc = -2)
#' }
#' @export
ring_apply <- function(.x, .f, ..., columns = NULL, num_proc = NULL, packages = NULL, seed = NULL,
                       results = NULL, timeout = 300, max_restarts = 0, progress = FALSE,
                       timeline = NULL, options = list(), rows = c("all", "batches", "matrix"),
                       collect = TRUE) {
  check_given(.x, .f)
  options <- driver_timeline(timeline, options)
  on.exit(timeline_merge_run(options$timeline))
  driver_check_packages(packages, sys.call())
  job <- driver_job(.f, list(...), 2L, columns, num_proc, seed, timeout, max_restarts, options)
  job$progress <- check_flag(progress, "progress")
  job$rows <- driver_rows(rows)
  job$collect <- check_flag(collect, "collect")
  driver_check_table(.x)
  frame <- pyspark_frame(.x)
  if (!is.null(frame)) {
    value <- pyspark_apply(frame, job, num_proc, columns, packages, results, max_restarts)
    return(pyspark_like(value, .x))
  }
  sc <- sparklyr::spark_connection(.x)
  sync_connection(sc)
  sdf <- sparklyr::spark_dataframe(.x)
  types <- vapply(sparklyr::sdf_schema(sdf), function(field) field$type, "")
  job$kinds <- batches_kinds(types)
  if (job$rows == "matrix") batches_check_numbers(types, job$kinds)
  sdf <- barrier_job_vectors(sc, sdf, types)
  batches <- barrier_job_batches(sc, sdf, job$kinds)
  deal <- !is.null(num_proc)
  if (!deal) job$size <- max(1L, as.integer(sparklyr::invoke(batches, "getNumPartitions")))
  files <- NULL # of all attempts, so that Spark computes the table once
  make_table <- function(size) {
    if (is.null(files)) {
      counts <- if (deal) barrier_job_count(sdf, job$kinds)
      files <<- barrier_job_files(sc, batches, size, counts)
    }
    files
  }
  barrier_job_run(sc, job, make_table, columns, packages, results, timeout, max_restarts)
}

#' @rdname ring_apply
#' @export
ring_run <- function(.sc, .f, ..., columns = NULL, num_proc = NULL, packages = NULL, seed = NULL,
                     results = NULL, timeout = 300, max_restarts = 0,
                     progress = isTRUE(num_proc < 0), timeline = NULL, options = list()) {
  check_given(.sc, .f)
  options <- driver_timeline(timeline, options)
  on.exit(timeline_merge_run(options$timeline))
  driver_check_packages(packages, sys.call())
  job <- driver_job(.f, list(...), 1L, columns, num_proc, seed, timeout, max_restarts, options)
  job$progress <- check_flag(progress, "progress")
  job$collect <- TRUE
  if (isTRUE(job$local)) return(local_attempts(job, columns, max_restarts))
  session <- pyspark_session(.sc)
  if (!is.null(session)) {
    return(pyspark_run(session, job, NULL, num_proc, columns, packages, results, max_restarts))
  }
  driver_need_sparklyr()
  if (!inherits(.sc, "spark_connection")) {
    check_stop("`.sc` must be a connection, from sparklyr::spark_connect(), or a session of ",
               "PySpark, not ", describe(.sc), "; without Spark, pass a negative `num_proc`")
  }
  sync_connection(.sc)
  make_table <- function(size) {
    barrier_job_sql(.sc, sprintf("SELECT id FROM range(0, %1$d, 1, %1$d)", size))
  }
  barrier_job_run(.sc, job, make_table, columns, packages, results, timeout, max_restarts)
}

# ---- Arguments -----------------------------------------------------------------------------------

# Makes the job that is sent to the ranks, without the token, the attempt and the table. `given` is
# the number of arguments of `f` before the user's: 2 with rows, 1 without.
driver_job <- function(f, args, given, columns, num_proc, seed, timeout, max_restarts, options) {
  call <- sys.call(-1)
  f <- driver_function(f, args, given, call)
  driver_check_columns(columns, call)
  local <- given == 1L && is_whole(num_proc) && num_proc < 0
  size <- if (local) -as.integer(num_proc)
  if (!local && !is.null(num_proc)) size <- check_whole(num_proc, "num_proc", least = 1)
  if (!is.null(seed) && !is_whole(seed)) {
    check_stop("`seed` must be one whole number, not ", describe(seed), call = call)
  }
  if (is.null(timeout)) {
    check_stop("`timeout` must be a positive number of seconds, not NULL", call = call)
  }
  timeout <- check_seconds(timeout, "timeout")
  check_whole(max_restarts, "max_restarts", least = 0)
  list(
    work = serialize(list(f = f, args = args), NULL, version = 3L),
    size = size, local = local, seed = seed, options = c(options, timeout = timeout)
  )
}

driver_rows <- function(rows) {
  known <- c("all", "batches", "matrix")
  if (identical(rows, known)) return("all")
  if (is_string(rows) && rows %in% known) return(rows)
  check_stop("`rows` must be \"all\", \"batches\" or \"matrix\", not ", describe(rows))
}

# The options, checked, with the directory of timelines. A path is relative to the directory of
# this process.
driver_timeline <- function(timeline, options) {
  driver_check_options(options, sys.call(-1))
  timeline <- check_string(timeline, "timeline")
  if (is.null(timeline)) return(options)
  options$timeline <- timeline_absolute(timeline)
  options
}

# Returns `f` as a function. Raises an error if ranks could not call it.
driver_function <- function(f, args, given, call) {
  ours <- c("df", "comm")[c(given == 2L, TRUE)]
  text <- paste0(".f(", toString(c(ours, if (length(args) > 0L) "...")), ")")
  if (inherits(f, "formula")) f <- driver_lambda(f, call)
  if (!is.function(f)) {
    check_stop("`.f` must be a function that is called as ", text, ", or a formula, not ",
               describe(f), call = call)
  }
  if (is.primitive(f)) return(f)
  driver_check_names(f, if (given == 2L) ring_apply else ring_run, call)
  tryCatch(
    match.call(f, as.call(c(quote(.f), lapply(ours, as.name), args))),
    error = function(error) {
      check_stop("`.f` is called as ", text, ", which does not fit its arguments (",
                 toString(names(formals(f))), "): ", conditionMessage(error), call = call)
    }
  )
  f
}

# Does the same as rlang::as_function(), so a formula means the same as in sparklyr::spark_apply().
driver_lambda <- function(formula, call) {
  if (length(formula) != 2L) {
    check_stop("`.f` is the formula ", deparse(formula)[[1L]], ": a formula that stands for a ",
               "function has only a right side, as in ~ nrow(.x)", call = call)
  }
  places <- lapply(c(.x = "..1", .y = "..2", . = "..1"), as.name)
  as.function(c(formals(function(...) NULL), places, formula[[2L]]), environment(formula))
}

# Refuses an argument name that `f` and the caller share: R would pass the argument to the caller.
driver_check_names <- function(f, caller, call) {
  both <- intersect(intersect(names(formals(f)), names(formals(caller))), names(call))
  both <- setdiff(both, c("", "...", ".sc", ".x", ".f"))
  if (length(both) == 0L) return()
  caller <- deparse(call[[1L]])
  check_stop("`", both[[1L]], "` is an argument of ", caller, "() and of `.f`, and only ", caller,
             "() would get it: rename the argument of `.f`", call = call)
}

driver_check_columns <- function(columns, call) {
  if (is.null(columns)) return()
  columns <- unlist(columns)
  known <- is.character(columns) && !anyNA(columns)
  if (known && !is.null(names(columns))) known <- all(columns %in% names(columns_types))
  if (known) return()
  check_stop("`columns` must be names, or types with names, which are ",
             toString(names(columns_types)), call = call)
}

driver_check_packages <- function(packages, call) {
  flag <- is.logical(packages) && length(packages) == 1L && !is.na(packages)
  if (is.null(packages) || flag || (is.character(packages) && !anyNA(packages))) return()
  check_stop("`packages` must be TRUE, FALSE, names of packages or the path of a bundle, not ",
             describe(packages), call = call)
}

driver_check_options <- function(options, call) {
  ours <- c("barrier", "...", "rank", "size", "addresses", "root_address", "token", "timeout")
  known <- setdiff(names(formals(ring_init)), ours)
  if (!is.list(options)) {
    check_stop("`options` must be a list, not ", describe(options), call = call)
  }
  if (length(options) == 0L) return()
  odd <- setdiff(names(options), known)
  if (is.null(names(options)) || length(odd) > 0L) {
    check_stop("`options` must have names, of arguments of ring_init(): ", toString(known),
               if (length(odd) > 0L) paste0("; not ", odd[[1L]]),
               call = call[1L]) # without its arguments, because the wrong one may be a token
  }
}

driver_check_table <- function(x, name = ".x") {
  if (pyspark_is_table(x)) return()
  driver_need_sparklyr()
  if (!inherits(x, "tbl_spark")) {
    check_stop("`", name, "` must be a Spark table, such as from sparklyr::copy_to(), not ",
               describe(x), if (is.data.frame(x)) ", which is in this R and not in Spark")
  }
  driver_check_groups(dplyr::group_vars(x), sys.call(-1))
}

# Refuses a table of PySpark, which `what` does not take, with what to do.
driver_refuse_pyspark <- function(x, what, remedy) {
  if (is.null(pyspark_frame(x))) return()
  ring_stop("UNSUPPORTED", call = sys.call(-1),
            paste0(what, " takes a table of sparklyr, and not of PySpark: ", remedy))
}

driver_check_groups <- function(groups, call) {
  if (length(groups) == 0L) return()
  check_stop(
    "`.x` is grouped by ", toString(groups), ", and `.f` is called once on each rank, not once ",
    "for each group, as ranks must make the same calls on `comm`: pass dplyr::ungroup(.x), and ",
    "group the rows in `.f`; to have all rows of a group on one rank, pass ",
    "sparklyr::sdf_repartition(dplyr::ungroup(.x), partitions, partition_by = ", deparse(groups),
    ") without `num_proc`",
    call = call
  )
}

driver_need_sparklyr <- function() {
  if (requireNamespace("sparklyr", quietly = TRUE)) return()
  ring_stop("UNSUPPORTED", "the package sparklyr is not installed: install.packages(\"sparklyr\")",
            call = sys.call(-2))
}
