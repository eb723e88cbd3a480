# SPDX-License-Identifier: Apache-2.0
#
# The main function of a rank of ring_apply() and ring_run(): opens the communicator, calls the
# function, and returns the result. Python's _task_main.py does the same.
#
# sparklyr drops the text of an error of a task. So the closure of a task never fails. A rank that
# fails aborts its communicator, so that the other ranks fail in their next call. Then the rank
# returns its failure like a value. The driver gets the results of all ranks, and finds the rank at
# fault. Results are sent through sparklyr and not through files, because tasks of one executor
# share a working directory. The process that sparklyr has started forks a child, and supervises it
# (spark-task.R). The child is the rank.

# The closure that sparklyr sends to the tasks. sparkring may be missing there, so the closure uses
# nothing of this package until it has attached it. Attached, the package is visible to the user's
# function. sparklyr passes the arguments by position, in this order.
task_closure <- function(df, context, barrier) {
  file <- unlist(df[[1L]]) # a list, or a vector without tibble
  if (is.character(file)) on.exit(unlink(file)) # the file of rows, if nothing has opened it
  if (!suppressWarnings(require("sparkring", quietly = TRUE, character.only = TRUE))) {
    return(data.frame(
      rank = as.integer(barrier$partition), piece = 0L, pieces = 0L, stringsAsFactors = FALSE,
      text = paste(
        "the package sparkring is not installed on", Sys.info()[["nodename"]], "in the libraries",
        paste(.libPaths(), collapse = ", "), "of R: install it there, or send it by `packages`"
      )
    ))
  }
  get("task_main", asNamespace("sparkring"))(df, context, barrier)
}
environment(task_closure) <- globalenv()

task_columns <- c(rank = "integer", piece = "integer", pieces = "integer", text = "character")

task_main <- function(df, job, barrier) rank_result_rows(task_run(df, job, barrier))

# Runs in the child. Warnings are printed at once, like all output. R compiles the functions of the
# user, which it does not do for the code of sparklyr's worker.
task_child <- function(file, job, barrier) {
  if (!isTRUE(job$local)) {
    Sys.unsetenv("R_ENABLE_JIT")
    compiler::enableJIT(3L)
  }
  if (identical(getOption("warn"), 0L)) options(warn = 1L)
  run_state$supervised <- TRUE
  rank_run(file, job, barrier)
}

# Runs the rank, and returns its result. The driver sends `job` as sparklyr's `context`. `file` is
# the descriptor of the file with the rows of the rank; NULL for ring_run().
rank_run <- function(file, job, barrier) {
  rank <- as.integer(barrier$partition)
  on.exit(list2env(list(attempt = 0L, executor = FALSE), run_state))
  run_state$attempt <- job$attempt
  run_state$executor <- !isTRUE(job$local)
  comm <- NULL
  frames <- NULL
  conditions <- NULL
  rank_result <- tryCatch(
    withCallingHandlers({
      task_check(job, barrier)
      rows <- if (!is.null(file)) task_rows(file, job)
      comm <- task_init(job, barrier)
      task_seed(job$seed, rank)
      value <- conditions_collect(task_call(job$work, rows, comm), isTRUE(job$local),
                                  function(found) conditions <<- found)
      rank_result <- results_store(rank, value, job)
      task_close(comm)
      rank_result
    }, error = function(error) if (is.null(frames)) frames <<- traceback_frames()),
    error = function(error) rank_result_of_error(rank, error, frames)
  )
  if (!is.null(comm)) task_end(comm, rank_result)
  rank_result$conditions <- conditions
  rank_result
}

task_check <- function(job, barrier) {
  tasks <- length(barrier$address)
  if (tasks == job$size) return()
  ring_stop("UNSUPPORTED", call = NULL, paste0(
    "Spark started ", tasks, " tasks for ", job$size, " ranks: pass another `num_proc`"
  ))
}

# The first argument of the user's function.
task_rows <- function(file, job) {
  read <- switch(job$rows, all = batches_all, batches = batches_tables, matrix = batches_matrix)
  read(file, job$kinds)
}

# Opens the communicator. The call has names in the place of the token and of the user's values, so
# that tracebacks do not show them.
task_init <- function(job, barrier) {
  options <- lapply(names(job$options), function(name) call("[[", quote(job$options), name))
  names(options) <- names(job$options)
  eval(as.call(c(quote(ring_init), quote(barrier), token = quote(job$token), options)))
}

# Gives rank 0 the random stream of set.seed(), and each further rank the next stream.
task_seed <- function(seed, rank) {
  if (is.null(seed)) return()
  set.seed(seed, "L'Ecuyer-CMRG", "Inversion", "Rejection")
  stream <- get(".Random.seed", globalenv())
  for (i in seq_len(rank)) stream <- parallel::nextRNGStream(stream)
  assign(".Random.seed", stream, globalenv())
}

# Calls f(rows, comm, ...); or f(comm, ...) for ring_run(), where `rows` is NULL.
task_call <- function(work, rows, comm) {
  work <- unserialize(work)
  f <- work$f # nolint: object_usage_linter. The call below names it.
  args <- work$args
  further <- lapply(seq_along(args), function(i) call("[[", quote(args), i))
  names(further) <- names(args)
  eval(as.call(c(quote(f), if (!is.null(rows)) quote(rows), quote(comm), further)))
}

# Closes the communicator after a success, so that ranks that still wait for this rank in a call get
# an error. Waits for the other ranks without a limit. Only a mismatch of calls is a failure of this
# rank.
task_close <- function(comm) {
  tryCatch(
    .Call(C_comm_close, comm, 1e9),
    ring_error_mismatch = function(error) stop(error),
    ring_error = function(error) NULL
  )
}

# Ends the communicator. Errors are ignored, because the result of the rank is known already.
task_end <- function(comm, rank_result) {
  failure <- rank_result$failure
  tryCatch(
    if (is.null(failure)) {
      ring_close(comm)
    } else {
      message <- paste0("rank ", rank_result$rank, " failed: ", failure$message)
      ring_abort(comm, substr(message, 1L, 200L))
    },
    ring_error = function(error) NULL
  )
}
