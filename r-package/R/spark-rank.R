# SPDX-License-Identifier: Apache-2.0
#
# A rank of ring_apply() and ring_run(): forms the ring, calls the function, and returns how that
# ended. Python's rank does the same.
#
# sparklyr loses the text of an error, and with it why the stage failed. So the closure of a rank
# never fails. A rank that fails aborts its communicator, so that the other ranks fail in their next
# call, and returns its failure like a value. The driver reads the results of all ranks and finds
# the rank at fault. Results travel through sparklyr and not through files, because tasks of one
# executor share a working directory. A child of the process that sparklyr has started does the
# work; the process supervises it (spark-supervisor.R).

rank_state <- new.env(parent = emptyenv())
rank_state$attempt <- 0L
rank_state$executor <- FALSE # this process has a working directory of its own
rank_state$supervised <- FALSE # a supervisor reads reports of progress
rank_state$reported <- -Inf # time of the last report

#' Restarts: how often the ranks were launched before
#'
#' With `max_restarts`, [ring_apply()] and [ring_run()] launch all ranks again after a rank has
#' failed.
#'
#' @inheritParams ring_rank
#' @returns An integer: 0 in the first attempt, and outside of [ring_apply()] and [ring_run()].
#' @seealso [ring_checkpoint()], to continue from a saved state.
#' @examples
#' comm <- ring_init()
#' ring_attempt(comm)
#' ring_close(comm)
#' @export
ring_attempt <- function(comm) {
  ring_rank(comm)
  rank_state$attempt
}

# The closure that sparklyr ships. It runs where sparkring may be missing, so it uses nothing of
# this package. sparklyr passes its arguments by position, in this order. The closure attaches the
# package so that `f` finds its functions.
rank_closure <- function(df, context, barrier) {
  if (!suppressWarnings(require("sparkring", quietly = TRUE, character.only = TRUE))) {
    return(data.frame(
      rank = as.integer(barrier$partition), piece = 0L, pieces = 0L, stringsAsFactors = FALSE,
      text = paste(
        "the package sparkring is not installed in the R of", Sys.info()[["nodename"]],
        "whose libraries are", paste(.libPaths(), collapse = ", ")
      )
    ))
  }
  get("rank_main", asNamespace("sparkring"))(df, context, barrier)
}
environment(rank_closure) <- globalenv()

rank_columns <- c(rank = "integer", piece = "integer", pieces = "integer", text = "character")

rank_main <- function(df, job, barrier) rank_result_rows(supervisor_run(df, job, barrier))

# Runs in the child of the supervisor. Warnings are printed at once, like all output.
rank_child <- function(df, job, barrier) {
  if (identical(getOption("warn"), 0L)) options(warn = 1L)
  rank_state$supervised <- TRUE
  rank_run(df, job, barrier)
}

# Returns the result of a rank. `job` is sent by the driver as sparklyr's `context`.
rank_run <- function(df, job, barrier) {
  rank <- as.integer(barrier$partition)
  on.exit(list2env(list(attempt = 0L, executor = FALSE), rank_state))
  rank_state$attempt <- job$attempt
  rank_state$executor <- !isTRUE(job$local)
  comm <- NULL
  frames <- NULL
  rank_result <- tryCatch(
    withCallingHandlers({
      rank_check(job, barrier)
      rows <- if (!is.null(job$cells)) cells_read(df, job$cells)
      comm <- rank_init(job, barrier)
      rank_seed(job$seed, rank)
      value <- results_store(rank, rank_call(job$work, rows, comm), job)
      rank_close(comm)
      value
    }, error = function(error) if (is.null(frames)) frames <<- traceback_frames()),
    error = function(error) rank_result_of_error(rank, error, frames)
  )
  if (!is.null(comm)) rank_end(comm, rank_result)
  rank_result
}

rank_check <- function(job, barrier) {
  tasks <- length(barrier$address)
  if (tasks == job$size) return()
  ring_stop("UNSUPPORTED", call = NULL, paste0(
    "Spark has made ", tasks, " tasks for ", job$size, " ranks: leave ",
    "spark.sql.requireAllClusterKeysForDistribution at false"
  ))
}

# Keeps the token and the values of the user out of calls, and so out of tracebacks.
rank_init <- function(job, barrier) {
  options <- lapply(names(job$options), function(name) call("[[", quote(job$options), name))
  names(options) <- names(job$options)
  eval(as.call(c(quote(ring_init), quote(barrier), token = quote(job$token), options)))
}

# Gives rank 0 the stream of set.seed(), and each further rank the next stream.
rank_seed <- function(seed, rank) {
  if (is.null(seed)) return()
  set.seed(seed, "L'Ecuyer-CMRG", "Inversion", "Rejection")
  stream <- get(".Random.seed", globalenv())
  for (i in seq_len(rank)) stream <- parallel::nextRNGStream(stream)
  assign(".Random.seed", stream, globalenv())
}

# Calls f(rows, comm, ...), or f(comm, ...) where there are no rows.
rank_call <- function(work, rows, comm) {
  work <- unserialize(work)
  f <- work$f # nolint: object_usage_linter. The call has it.
  args <- work$args
  further <- lapply(seq_along(args), function(i) call("[[", quote(args), i))
  names(further) <- names(args)
  eval(as.call(c(quote(f), if (!is.null(rows)) quote(rows), quote(comm), further)))
}

# Closes the communicator in the name of a rank that has succeeded, so that ranks that call this one
# get an error. Waits as long as the other ranks take. Only a mismatch of calls is a failure of this
# rank.
rank_close <- function(comm) {
  tryCatch(
    .Call(C_comm_close, comm, 1e9),
    ring_error_mismatch = function(error) stop(error),
    ring_error = function(error) NULL
  )
}

# Ends the communicator. The result of the rank is known already, so errors here do not count.
rank_end <- function(comm, rank_result) {
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
