# SPDX-License-Identifier: Apache-2.0
#
# What a rank of ring_apply() and ring_run() does: form the ring, call the function, and tell how it
# ended. Python's sparkring.spark.rank has the same.
#
# sparklyr loses the text of an error, and with it why the stage failed. So a closure of ours never
# fails: a rank that does aborts its communicator, which makes the others fail in their next call,
# and returns its failure like a value. The driver gets what every rank has to say, and finds who
# was at fault. Everything goes through what sparklyr returns, and nothing through files: tasks of
# one executor share their working directory. The work itself is done by a child of the process that
# sparklyr has started, which supervises it (supervise.R).

rank_state <- new.env(parent = emptyenv())
rank_state$attempt <- 0L
rank_state$executor <- FALSE # this process has a working directory of its own
rank_state$supervised <- FALSE # somebody reads reports of progress
rank_state$reported <- -Inf # when the last of these was made

#' Restarts: how often the ranks were launched before
#'
#' With `max_restarts`, [ring_apply()] and [ring_run()] launch all ranks again after one has failed.
#'
#' @inheritParams ring_rank
#' @returns An integer: 0 the first time, and everywhere but in a function that they call.
#' @seealso [ring_checkpoint()], to go on where the ranks were before.
#' @examples
#' comm <- ring_init()
#' ring_attempt(comm)
#' ring_close(comm)
#' @export
ring_attempt <- function(comm) {
  ring_rank(comm)
  rank_state$attempt
}

# What sparklyr ships. It is read where sparkring may be missing, so it has nothing of this package
# in it; and sparklyr passes as many arguments as it has, in this order. The package is attached, so
# `f` finds its functions.
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

# What a child of the supervisor does. What it prints comes at once, also its warnings.
rank_child <- function(df, job, barrier) {
  if (identical(getOption("warn"), 0L)) options(warn = 1L)
  rank_state$supervised <- TRUE
  rank_run(df, job, barrier)
}

# The outcome of a rank. `job` is what the driver has sent, by sparklyr's `context`.
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

# Neither the token nor a value of the user becomes part of a call, and so of a traceback.
rank_init <- function(job, barrier) {
  options <- lapply(names(job$options), function(name) call("[[", quote(job$options), name))
  names(options) <- names(job$options)
  eval(as.call(c(quote(ring_init), quote(barrier), token = quote(job$token), options)))
}

# Rank 0 draws what set.seed() gives, and each further rank from the next stream.
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

# Tells ranks that want more of this one that it has ended, and waits as long as the others take.
# Only what ranks have called differently is a failure of this one.
rank_close <- function(comm) {
  tryCatch(
    .Call(C_comm_close, comm, 1e9),
    ring_error_mismatch = function(error) stop(error),
    ring_error = function(error) NULL
  )
}

# What a rank has to say is said already, so errors of the end do not count.
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
