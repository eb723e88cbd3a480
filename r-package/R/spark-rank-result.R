# SPDX-License-Identifier: Apache-2.0
#
# The result of a rank: a value or a failure. Spark returns it as rows of a table, in pieces of
# text.
#
# A failure breaks the communicator, so all ranks fail soon after the first failure. The weights of
# core/bindings/blame.h identify the first failure, which the driver raises. Python's
# spark/_rank_result.py does the same.

rank_result_piece <- 3 * 2^18 # bytes; a multiple of 3, so that no text but the last has padding
rank_result_largest <- 2^18 # bytes of a condition
rank_result_line <- 200L # characters of a line of the log in a message

# Makes a result. `value` has the bytes of the value. If the bytes are in a file of `size` bytes
# (spark-results.R), `value` is NULL until the driver has read the file, and then a list of the
# value itself. The task sets `log` to the last lines that the rank has printed.
rank_result_make <- function(rank, value = NULL, failure = NULL, size = NULL) {
  list(
    rank = rank, host = Sys.info()[["nodename"]], value = value, failure = failure, size = size,
    log = character()
  )
}

rank_result_of_value <- function(rank, value) {
  rank_result_make(rank, value = serialize(value, NULL, xdr = FALSE, version = 3L))
}

# `frames` is the value of traceback_frames() in the handler of the error.
rank_result_of_error <- function(rank, error, frames = NULL) {
  bytes <- tryCatch(serialize(error, NULL, version = 3L), error = function(error) NULL)
  rank_result_make(rank, failure = list(
    what = "failed",
    message = rank_result_hint(conditionMessage(error)),
    error = if (length(bytes) <= rank_result_largest) bytes,
    traceback = traceback_text(frames),
    weight = rank_result_weight(error, rank),
    when = as.numeric(Sys.time())
  ))
}

# The message, with the remedy for a variable of the driver that was not sent. R translates these
# messages.
rank_result_hint <- function(message) {
  texts <- gettext("could not find function \"%s\"", "object '%s' not found", domain = "R")
  patterns <- paste0("^\\Q", sub("%s", "\\E.*\\Q", texts, fixed = TRUE), "\\E$")
  if (!any(vapply(patterns, grepl, NA, message, perl = TRUE))) return(message)
  paste0(message, ": a rank has no variables of the driver's global environment, so pass them as ",
         "arguments in `...`")
}

# The result of a rank that has returned none. Its weight is less than the weights of the errors by
# which other ranks report the lost rank.
rank_result_lost <- function(rank, why, what = "was lost",
                         weight = .Call(C_blame_weight, "ENDED")) {
  rank_result_make(rank, failure = list(
    what = what, message = why, traceback = "", weight = weight, when = as.numeric(Sys.time())
  ))
}

# Adds the probable cause of the end of a process, and what to change.
rank_result_advise <- function(how, local = FALSE) {
  killed <- "SIGKILL|(code|status)\\W{1,3}137\\b|memory limits?|OOMKilled"
  ended <- "SIGTERM|(code|status)( is|\\W)\\W{0,2}143\\b"
  advice <- if (grepl(killed, how, perl = TRUE)) {
    paste("probably out of memory:", if (local) {
      "start fewer ranks, or add memory to this machine"
    } else {
      "raise spark.executor.memoryOverhead"
    })
  } else if (!local && grepl(ended, how, perl = TRUE)) {
    "preempted, or over a memory limit: see the cluster manager's log"
  }
  if (is.null(advice)) how else paste0(how, " (", advice, ")")
}

# The weight of an error of `rank`, by the statuses of all sparkring errors in its chain of parents
# that do not name `rank` itself, as that of a rank whose MPI program has failed does.
rank_result_weight <- function(error, rank) {
  statuses <- character()
  while (inherits(error, "condition")) {
    remote <- inherits(error, "ring_error_remote") # of a job within this one
    if (inherits(error, "ring_error") && !remote && !identical(as.integer(error$rank), rank)) {
      statuses <- c(statuses, error$status)
    }
    error <- error$parent
  }
  .Call(C_blame_weight, statuses)
}

# ---- As rows ------------------------------------------------------------------------------------

# Further rows with `pieces` -1 have the strings of a table that stays in Spark (spark-kept.R).
rank_result_rows <- function(rank_result) {
  strings <- rank_result$table$strings
  rank_result$table$strings <- NULL
  bytes <- serialize(rank_result, NULL, version = 3L)
  starts <- seq(1, length(bytes), by = rank_result_piece)
  text <- vapply(starts, function(start) {
    base64_text(bytes[seq(start, min(start + rank_result_piece - 1, length(bytes)))])
  }, "")
  data.frame(
    rank = rank_result$rank, piece = c(seq_along(text), seq_along(strings)),
    pieces = rep(c(length(text), -1L), c(length(text), length(strings))), text = c(text, strings),
    stringsAsFactors = FALSE
  )
}

# Reads results from `rows`, in rank order. A rank whose pieces are incomplete has none. A row with
# `pieces` 0 has an error as its text, from a rank without this package.
rank_result_read <- function(rows) {
  rank_results <- lapply(split(rows, rows$rank), function(rows) {
    rows <- rows[order(rows$piece), ]
    if (rows$pieces[[1L]] == 0L) {
      ring_stop("UNSUPPORTED", rows$text[[1L]], rank = rows$rank[[1L]], call = NULL)
    }
    if (nrow(rows) < rows$pieces[[1L]]) return(NULL)
    unserialize(unlist(lapply(rows$text, base64_bytes)))
  })
  unname(Filter(Negate(is.null), rank_results))
}

base64_letters <- charToRaw("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")

base64_text <- function(bytes) {
  missing <- (3L - length(bytes) %% 3L) %% 3L
  x <- matrix(as.integer(c(bytes, raw(missing))), nrow = 3L)
  numbers <- rbind(
    x[1L, ] %/% 4L,
    x[1L, ] %% 4L * 16L + x[2L, ] %/% 16L,
    x[2L, ] %% 16L * 4L + x[3L, ] %/% 64L,
    x[3L, ] %% 64L
  )
  letters <- base64_letters[numbers + 1L]
  if (missing > 0L) letters[length(letters) - seq_len(missing) + 1L] <- charToRaw("=")
  rawToChar(letters)
}

base64_bytes <- function(text) {
  letters <- charToRaw(text)
  missing <- sum(utils::tail(letters, 2L) == charToRaw("="))
  numbers <- match(letters, base64_letters, nomatch = 1L) - 1L
  x <- matrix(numbers, nrow = 4L)
  bytes <- as.raw(rbind(
    x[1L, ] * 4L + x[2L, ] %/% 16L,
    x[2L, ] %% 16L * 16L + x[3L, ] %/% 4L,
    x[3L, ] %% 4L * 64L + x[4L, ]
  ))
  if (missing > 0L) utils::head(bytes, -missing) else bytes
}

# ---- On the driver ------------------------------------------------------------------------------

# Returns the condition to raise for the rank at fault, or NULL when all ranks have returned a
# value.
rank_result_judge <- function(rank_results, size, attempt) {
  failed <- Filter(function(rank_result) !is.null(rank_result$failure), rank_results)
  weights <- vapply(failed, function(rank_result) rank_result$failure$weight, 0)
  there <- vapply(rank_results, function(rank_result) rank_result$rank, 0L)
  missing <- setdiff(seq_len(size) - 1L, there)
  if (length(missing) > 0L && !any(weights < .Call(C_blame_weight, "PEER_LOST"))) {
    what <- "ended without a result: it may have called quit()"
    return(rank_result_condition(what, rank = missing[[1L]], attempt = attempt))
  }
  if (length(failed) == 0L) return(NULL)
  whens <- vapply(failed, function(rank_result) rank_result$failure$when, 0)
  ranks <- vapply(failed, function(rank_result) rank_result$rank, 0L)
  culprit <- failed[[.Call(C_blame_first, weights, whens, ranks)]]
  failure <- culprit$failure
  parent <- tryCatch(unserialize(failure$error), error = function(error) NULL)
  rank_result_condition(
    paste0(failure$what, ": ", failure$message), culprit$rank, culprit$host,
    attempt, failure$traceback, culprit$log, parent
  )
}

# Makes a condition of class ring_error_remote with rank, host, traceback and log in its message.
# The condition has the classes and fields of `parent`, too, so that a handler for them finds it.
rank_result_condition <- function(what, rank = NA_integer_, host = "", attempt = 0L, traceback = "",
                              log = character(), parent = NULL) {
  subject <- if (is.na(rank)) "a rank" else paste("rank", rank)
  if (nzchar(host)) subject <- paste(subject, "on", host)
  message <- paste(subject, what)
  if (attempt > 0L) message <- paste0(message, " (attempt ", attempt, ")")
  if (nzchar(traceback)) message <- paste0(message, "\n\nIts calls:\n", traceback)
  if (length(log) > 0L) {
    lines <- paste0("  ", substr(log, 1L, rank_result_line), collapse = "\n")
    message <- paste0(message, "\n\nThe last lines of its log:\n", lines)
  }
  base <- c("ring_error", "simpleError", "rlang_error", "error", "condition")
  classes <- if (inherits(parent, "condition")) setdiff(class(parent), base)
  fields <- if (inherits(parent, "condition")) unclass(parent) else list()
  fields[c("message", "status", "rank", "errno", "host", "attempt", "traceback", "log")] <- list(
    message, "REMOTE", rank, NA_integer_, host, attempt, traceback, log
  )
  fields["call"] <- list(NULL)
  fields["parent"] <- list(parent)
  structure(class = c("ring_error_remote", classes, "ring_error", "error", "condition"), fields)
}

# Returns the value of each rank, or one table where all values are tables or `columns` is given.
rank_result_values <- function(rank_results, columns = NULL) {
  values <- lapply(rank_results, function(rank_result) {
    if (is.list(rank_result$value)) rank_result$value[[1L]] else unserialize(rank_result$value)
  })
  tables <- vapply(values, is.data.frame, NA)
  if (is.null(columns) && !all(tables)) return(values)
  if (!all(tables)) {
    rank <- which(!tables)[[1L]]
    check_stop("`columns` is given, but `.f` returned ", describe(values[[rank]]), " on rank ",
               rank - 1L, ": it must return a data frame", call = NULL)
  }
  rank_result_table(values, columns)
}

rank_result_table <- function(tables, columns = NULL) {
  names <- if (is.null(columns)) names(tables[[1L]]) else columns_names(columns)
  for (i in seq_along(tables)) {
    odd <- setdiff(names, names(tables[[i]]))
    if (is.null(columns)) odd <- c(odd, setdiff(names(tables[[i]]), names))
    if (length(odd) > 0L) columns_refuse(i - 1L, columns, odd[[1L]])
    columns_refuse_names(names(tables[[i]]), paste("rank", i - 1L))
    tables[[i]] <- as.data.frame(tables[[i]])[names]
    tables[[i]][] <- lapply(tables[[i]], columns_bare)
  }
  ranks <- rep(seq_along(tables) - 1L, vapply(tables, nrow, 0L))
  rows <- do.call(rbind, columns_agree(tables))
  columns_check(rows, columns)
  as_table(c(list(rank = ranks), rows[names != "rank"]))
}

# Makes a tibble where the package tibble is installed, else a data frame.
as_table <- function(columns) {
  rows <- if (length(columns) > 0L) length(columns[[1L]]) else 0L
  class <- c(if (requireNamespace("tibble", quietly = TRUE)) c("tbl_df", "tbl"), "data.frame")
  structure(columns, class = class, row.names = .set_row_names(rows))
}
