# SPDX-License-Identifier: Apache-2.0
#
# ring_apply() and ring_run(), and the checks of their arguments. spark-barrier-job.R has the rest
# of the driver's side, and spark-task-main.R the side of the ranks. Python's sparkring.spark.run
# does the same.

#' Run a function on the ranks of a ring, as the tasks of a Spark barrier stage
#'
#' `ring_apply()` gives each rank a part of a Spark table; `ring_run()` has no table. The function
#' gets an open communicator, which is closed afterwards. It must not call [ring_init()].
#'
#' The slots for all ranks are checked before anything starts. `.f` is called once on each rank. A
#' rank whose part has no rows gets a table of no rows. The ranks get a token of their own, by the
#' context of `sparklyr::spark_apply()`, so no other process can join. Tables are sent to the ranks
#' packed, thousands of rows at once, and not as `spark_apply()` passes them.
#'
#' `.f` runs in a process that is forked from the process that sparklyr has started. The parent
#' supervises it: it copies the output of `.f` to the executor's log, and ends `.f` when another
#' rank has failed.
#'
#' For trying and debugging, `ring_run(NULL, f, num_proc = -2)` runs two processes of this machine,
#' without Spark and sparklyr. Their output is shown, line by line with the rank before each line,
#' and with [ring_progress()] a progress bar. They end with this process, and when it is
#' interrupted.
#'
#' @param .x A Spark table, of a connection of sparklyr, without groups. Its columns are numbers,
#'   logicals, strings, dates, timestamps, binary, or arrays of numbers. Binary and arrays become
#'   lists of vectors. Integers of 64 bits and decimals become doubles.
#' @param .sc A connection, from `sparklyr::spark_connect()`; with a negative `num_proc` it is not
#'   used, and may be `NULL`.
#' @param .f A function. `ring_apply()` calls `.f(df, comm, ...)` with the rows of the rank as a
#'   data frame (a tibble, where that is installed), and `ring_run()` calls `.f(comm, ...)`. Or a
#'   formula, as in `sparklyr::spark_apply()`: `~ nrow(.x)` is a function of the rows `.x` and the
#'   communicator `.y`, and for `ring_run()` of the communicator `.x`; `..3` and so on are further
#'   arguments. `.f` is sent by [serialize()], with the environment that it was made in, unless that
#'   is the global environment. So pass the values that it needs in `...`, and name packages by
#'   `package::name`.
#' @param ... Further arguments of `.f`, by name or place. An argument of `.f` must not have the
#'   name of an argument of `ring_apply()` or `ring_run()`, such as `timeout`: to pass it is an
#'   error.
#' @param columns The columns of the result, when `.f` returns data frames: names, or types with
#'   names, as in `c(total = "double")`: double, integer, character, logical, date, timestamp,
#'   factor or list. `NULL`: the columns that `.f` returns.
#' @param num_proc The number of ranks. `NULL` for `ring_apply()`: the number of partitions of the
#'   table; the rows of a partition stay together, in their order. `NULL` for `ring_run()`: the
#'   number of free slots. A number for `ring_apply()`: the rows are dealt out evenly, in their
#'   order, so rank 0 has the first. Spark counts them for that, and so computes the table twice,
#'   unless it is cached (`sparklyr::tbl_cache()`). A negative number, for `ring_run()` alone: so
#'   many processes of this machine, without Spark.
#' @param packages The packages to send to the executors, with the meaning and the default of
#'   `sparklyr::spark_apply()`: the names of packages, a bundle, or `TRUE` for all that are
#'   installed here. `NULL`: `sparklyr.apply.packages` of the connection's configuration, else
#'   `TRUE`; and none with a local master. `FALSE`: the executors have sparkring, and the packages
#'   that `.f` needs.
#' @param seed One whole number: each rank draws from a stream of random numbers of its own
#'   (L'Ecuyer-CMRG; rank `r` has the stream that is `r` times [parallel::nextRNGStream()] behind
#'   that of [set.seed()]), the same from run to run and in each attempt. The generator of this
#'   process stays as it is. `NULL`: R seeds each rank from its clock and process number, so the
#'   numbers differ between ranks and between runs.
#' @param results A directory that the executors and this machine share, through which values above
#'   16 MiB are sent; their files are removed. `NULL`: ranks send them to this machine, see the
#'   section on large values.
#' @param timeout Seconds until the rendezvous of all ranks must be complete, from the start of
#'   each.
#' @param max_restarts How often all ranks are launched again after a rank has failed.
#'   [ring_attempt()] returns the number of the attempt, and [ring_checkpoint()] keeps a state.
#' @param progress Whether to show the reports of [ring_progress()]; by default only without Spark.
#'   On Spark a process that is forked from this one shows them, on the standard error, where R runs
#'   in a terminal. Executors must be able to connect to this host (`spark.driver.host`), or nothing
#'   is shown.
#' @param options A list with further arguments of [ring_init()], such as `list(call_timeout = 3600,
#'   encryption = TRUE)`. `ports` must have enough ports for two rings: the processes that supervise
#'   the ranks have their own.
#'
#' @returns Where `.f` returns a data frame on every rank: one data frame (a tibble, where that is
#'   installed) with their rows in rank order, and the column `rank` first. Else a list with the
#'   values of `.f` in rank order, of any type that [serialize()] takes. All values are collected,
#'   so return a value that is the same on every rank from one rank only.
#'
#' @section GPUs:
#' Request GPUs in the configuration of the connection: `config <- sparklyr::spark_config()`,
#' `config$spark.executor.resource.gpu.amount`, `config$spark.task.resource.gpu.amount` and, so that
#' executors find their GPUs, `config$spark.executor.resource.gpu.discoveryScript`. Slots are
#' counted with these settings. They cannot be given for a single call, because sparklyr passes no
#' resource profile to a stage. In `.f`, `ring_gpus(comm, count)` gives each rank its own.
#'
#' @section Groups:
#' A table with `dplyr::group_by()` is an error. Ranks must make the same calls on the communicator,
#' so `.f` cannot be called once for each group that a rank happens to have. Remove the grouping
#' with `dplyr::ungroup()`, and group the rows within `.f`. All rows of a group are on one rank
#' after `sparklyr::sdf_repartition(tbl, partitions, partition_by = "group")`, without `num_proc`.
#'
#' @section Large values:
#' A value of up to 16 MiB is returned through Spark, like the result of `spark_apply()`; with more
#' than 8 ranks, of up to 128 MiB divided by their number. A larger value is sent by its rank when
#' all ranks have ended, on a connection from the rank to this machine (TLS, with a key of this
#' call). Files in the temporary directories of the rank and of this R (see [tempdir()]) hold it, on
#' disks that have enough space. Executors must be able to connect to `spark.driver.host`. Where
#' they cannot, name a directory that the hosts share as `results`. Without a connection and a
#' directory the value is a `ring_error_unsupported`, with its size and what to do.
#'
#' @section Interrupts:
#' Ctrl-C, and a limit of [setTimeLimit()], end the call, and the ranks within seconds, whatever
#' they compute. For that rank 0 has a connection, authenticated and encrypted, to a process that is
#' forked from this one and ends with the call. After an interrupt that process stays for ranks
#' whose R still starts, at most two minutes.
#'
#' Executors must be able to connect to `spark.driver.host`. Where they cannot, only the interrupt
#' works less well: sparklyr cancels the job but leaves R running. The next call waits until R has
#' ended, reports that after 20 seconds, and times out after `timeout`.
#'
#' @section Errors:
#' An error of `.f` on the rank at fault, in the last attempt, is raised as `ring_error_remote`. It
#' has the `rank`, its `host`, the `attempt`, the calls as `traceback`, the last 20 lines that the
#' rank has printed as `log`, and the condition itself as `parent`. It has the classes and fields of
#' that condition as well, so `tryCatch()` finds it by its own class.
#'
#' The other ranks fail in their next call on the communicator. Ranks that make no call are ended
#' after 5 seconds, whatever they compute. A rank whose process was killed, has crashed or has
#' called `quit()` is a `ring_error_remote`, too, with the signal or exit code. So is a rank that
#' Spark has lost, with its host and with Spark's error as its `parent`, but without its output.
#'
#' Before anything starts: `ring_error_invalid` for an invalid argument and for too few slots, with
#' the arithmetic; `ring_error_timeout` when other tasks hold the slots until `timeout`;
#' `ring_error_unsupported` where Spark cannot run barrier stages, as with dynamic allocation. See
#' [ring_error].
#'
#' @seealso [ring_glm()], [ring_optim()], [ring_mlp()], to be called in `.f`; [ring_init()], for
#'   closures of `spark_apply(barrier = TRUE)` that open the communicator themselves.
#' @examples
#' \dontrun{
#' # Needs Spark.
#' sc <- sparklyr::spark_connect(master = "local[4]")
#' cars <- sparklyr::copy_to(sc, mtcars)
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
                       options = list()) {
  job <- driver_job(.f, list(...), 2L, columns, num_proc, seed, timeout, max_restarts, options)
  job$progress <- check_flag(progress, "progress")
  driver_check_table(.x)
  sc <- sparklyr::spark_connection(.x)
  sync_connection(sc)
  sdf <- sparklyr::spark_dataframe(.x)
  types <- vapply(sparklyr::sdf_schema(sdf), function(field) field$type, "")
  job$cells <- cells_kinds(types)
  deal <- !is.null(num_proc)
  if (!deal) job$size <- max(1L, as.integer(sparklyr::sdf_num_partitions(sdf)))
  make_table <- function(size) barrier_job_pack(sc, sdf, job$cells, size, deal)
  barrier_job_run(sc, job, make_table, columns, packages, results, timeout, max_restarts)
}

#' @rdname ring_apply
#' @export
ring_run <- function(.sc, .f, ..., columns = NULL, num_proc = NULL, packages = NULL, seed = NULL,
                     results = NULL, timeout = 300, max_restarts = 0,
                     progress = isTRUE(num_proc < 0), options = list()) {
  job <- driver_job(.f, list(...), 1L, columns, num_proc, seed, timeout, max_restarts, options)
  job$progress <- check_flag(progress, "progress")
  if (isTRUE(job$local)) return(local_attempts(job, columns, max_restarts))
  driver_need_sparklyr()
  if (!inherits(.sc, "spark_connection")) {
    check_stop("`.sc` must be a connection, from sparklyr::spark_connect(), not ", describe(.sc),
               "; without Spark, pass a negative `num_proc`")
  }
  sync_connection(.sc)
  make_table <- function(size) {
    barrier_job_sql(.sc, sprintf("SELECT id FROM range(0, %1$d, 1, %1$d)", size))
  }
  barrier_job_run(.sc, job, make_table, columns, packages, results, timeout, max_restarts)
}

# ---- Arguments -----------------------------------------------------------------------------------

# The job that is sent to the ranks, without the token, the attempt and the table. `given` is the
# number of arguments of `f` that are ours.
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
  timeout <- check_seconds(timeout, "timeout")
  check_whole(max_restarts, "max_restarts", least = 0)
  driver_check_options(options, call)
  list(
    work = serialize(list(f = f, args = args), NULL, version = 3L),
    size = size, local = local, seed = seed, options = c(options, timeout = timeout)
  )
}

# Returns `f` as a function, or an error when ranks could not call it.
driver_function <- function(f, args, given, call) {
  ours <- c("df", "comm")[c(given == 2L, TRUE)]
  text <- paste0(".f(", toString(c(ours, if (length(args) > 0L) "...")), ")")
  if (inherits(f, "formula")) f <- driver_lambda(f, call)
  if (!is.function(f)) {
    check_stop("`.f` must be a function, called as ", text, ", or a formula, not ", describe(f),
               call = call)
  }
  if (is.primitive(f)) return(f)
  driver_check_names(f, call)
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

# Refuses an argument name that `f` and the caller share: R would match it to the caller's.
driver_check_names <- function(f, call) {
  both <- intersect(intersect(names(formals(f)), names(formals(ring_run))), names(call))
  both <- setdiff(both, c("", "...", ".sc", ".f"))
  if (length(both) == 0L) return()
  caller <- deparse(call[[1L]])
  check_stop("`", both[[1L]], "` is an argument of ", caller, "() and of `.f`, and only ", caller,
             "() would get it: rename the argument of `.f`", call = call)
}

driver_check_columns <- function(columns, call) {
  if (is.null(columns)) return()
  columns <- unlist(columns)
  known <- is.character(columns) && !anyNA(columns)
  if (known && !is.null(names(columns))) known <- all(columns %in% names(table_types))
  if (known) return()
  check_stop("`columns` must be names, or types with names, which are ",
             toString(names(table_types)), call = call)
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
               call = call[1L]) # without its arguments, as the odd one may be a token
  }
}

driver_check_table <- function(x) {
  driver_need_sparklyr()
  if (!inherits(x, "tbl_spark")) {
    check_stop("`.x` must be a Spark table, such as from sparklyr::copy_to(), not ", describe(x),
               if (is.data.frame(x)) ", which is in this R and not in Spark")
  }
  driver_check_groups(dplyr::group_vars(x), sys.call(-1))
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
