# SPDX-License-Identifier: Apache-2.0
#
# Values that are too large for Spark, which collects results as text in the memory of the driver's
# JVM. A rank writes its value to a file that only its user can read, so no value is copied in
# memory and none is too long for a vector. Spark carries a value of up to `results_largest` bytes,
# and up to `results_total` of all ranks.
#
# A larger value is sent to the driver when all ranks have ended. The tasks and a process that
# is forked from the driver form an encrypted ring, with a token of its own. Values are sent in
# pieces, rank after rank. The driver is rank 0 of the ring, so tasks connect to the driver,
# and the driver never connects to them. Or a rank writes its value to a directory of the user, and
# Spark returns the SHA-256 of the file. Python's spark/_results.py does the same.

results_largest <- 2^24 # bytes of a value that Spark carries
results_total <- 2^27 # bytes of the values of all ranks together
results_spare <- 2^16 # bytes of a rank's result besides the value
results_piece <- 2^22 # bytes of a message
results_connect <- 60 # seconds to connect to the driver
results_maximum <- "spark.driver.maxResultSize"
results_advice <- paste(
  "let executors reach it (spark.driver.host, firewalls), or pass `results` with a directory that",
  "the hosts share"
)

# ---- On a rank -----------------------------------------------------------------------------------

# Makes the result of a rank from its value: with the bytes of the value where Spark carries them,
# else with the size of the file that holds them.
results_store <- function(rank, value, job) {
  if (isFALSE(job$collect)) {
    rank_result <- rank_result_make(rank)
    rank_result$table <- kept_pack(value)
    return(rank_result)
  }
  if (is.null(job$folder)) return(rank_result_of_value(rank, value))
  file <- results_file(job$folder, rank)
  results_write(value, file)
  rank_result <- rank_result_make(rank, size = file.size(file))
  rank_result$kind <- class(value)[[1L]]
  if (isTRUE(job$local)) return(rank_result)
  if (rank_result$size <= job$results$most) return(results_inline(rank_result, file))
  if (!is.null(job$results$directory)) return(results_share(rank_result, file, job$results))
  rank_result$waits <- TRUE
  rank_result
}

results_file <- function(folder, rank) file.path(folder, paste0("value-", rank))

# Opens a file. The error has the reason, which R gives as a warning.
results_file_open <- function(file, mode) {
  tryCatch(file(file, mode), warning = function(warning) stop(conditionMessage(warning)))
}

results_write <- function(value, file) {
  connection <- results_file_open(file, "wb")
  on.exit(close(connection))
  serialize(value, connection, xdr = FALSE, version = 3L)
}

results_read <- function(file) {
  connection <- results_file_open(file, "rb")
  on.exit(close(connection))
  unserialize(connection)
}

# Moves the bytes of the file into the result.
results_inline <- function(rank_result, file) {
  rank_result$value <- readBin(file, "raw", rank_result$size)
  rank_result["size"] <- list(NULL)
  unlink(file)
  rank_result
}

# Copies the file to the directory that the user has named.
results_share <- function(rank_result, file, route) {
  shared <- results_shared(route, rank_result$rank)
  begun <- paste0(shared, "-new")
  on.exit(unlink(begun))
  rank_result$digest <- .Call(C_digest_file, file)
  failed <- tryCatch(
    !(file.copy(file, begun) && file.rename(begun, shared)),
    warning = function(warning) conditionMessage(warning)
  )
  unlink(file)
  if (!isFALSE(failed)) results_refuse(rank_result, route, if (is.character(failed)) failed else "")
  rank_result
}

results_shared <- function(route, rank) {
  file.path(route$directory, sprintf("%s-%06d", route$name, rank))
}

results_refuse <- function(rank_result, route, why) {
  if (nzchar(why)) why <- paste0(" (", why, ")")
  where <- if (!is.null(route$directory)) {
    paste0("goes through ", route$directory, ", where the rank cannot write it", why,
           ": pass `results` with a directory that every executor can write to")
  } else if (is.null(route$endpoint)) {
    paste0("goes to the driver, which could not start a process to receive it", why, ": ",
           results_advice)
  } else {
    paste0("goes to the driver at ", route$endpoint$host, ", where it did not arrive", why, ": ",
           results_advice)
  }
  ring_stop("UNSUPPORTED", call = NULL, paste0(
    "rank ", rank_result$rank, " returned a ", rank_result$kind, " that takes ",
    results_units(rank_result$size), ". Spark carries values up to ",
    results_units(results_largest),
    "; a larger one ", where
  ))
}

results_units <- function(size) {
  power <- min(3, max(0, floor(log(size, 1024))))
  paste(signif(size / 1024^power, 4), c("bytes", "KiB", "MiB", "GiB")[[power + 1]])
}

# ---- On an executor, in the task of a rank ------------------------------------------------

# Sends the value of this rank. The tasks of all ranks call it when a rank has a value to
# send. A child sends the value, so that the task sees the end of its executor and of the call
# on the driver.
results_send <- function(state, job, size) {
  rank_result <- state$rank_result
  file <- if (isTRUE(rank_result$waits)) results_file(job$folder, rank_result$rank)
  sent <- results_try(state, function() results_transmit(rank_result$rank, size, job$results, file))
  if (is.null(file) || isTRUE(sent)) return(rank_result)
  if (rank_result$size <= results_largest) return(results_inline(rank_result, file))
  tryCatch(
    results_refuse(rank_result, job$results, sent),
    error = function(error) rank_result_of_error(rank_result$rank, error)
  )
}

# Returns TRUE, or the reason why the value was not sent.
results_try <- function(state, send) {
  if (!is.null(state$broken)) return(conditionMessage(state$broken))
  child <- child_start(send, captured = FALSE)
  on.exit(child_kill(child))
  while (!child_ended(child)) {
    if (child_parent() != state$parent) { # the executor has ended
      child_kill(child)
      quit("no", status = 1L)
    }
    if (log_forwarder_lost(state$forwarder)) return("the call on the driver has ended")
    Sys.sleep(0.01)
  }
  if (is.null(child$value)) paste("the process that sends it", child_how(child)) else child$value
}

results_transmit <- function(rank, size, route, file) {
  if (is.null(route$endpoint)) return("") # there is no process on the driver
  tryCatch({
    ring <- results_ring(rank + 1L, size + 1L, route$endpoint, route$connect)
    bytes <- if (is.null(file)) 0 else file.size(file)
    ring_gather(ring, bytes)
    if (bytes > 0) results_pieces(ring, file)
    ring_barrier(ring) # the driver has all values
    ring_close(ring)
    TRUE
  }, error = conditionMessage)
}

results_pieces <- function(ring, file) {
  connection <- results_file_open(file, "rb")
  on.exit(close(connection))
  while (length(piece <- readBin(connection, "raw", results_piece)) > 0L) ring_send(ring, piece, 0)
}

# Opens the ring of the driver and the tasks. A task waits until its turn, as long as
# the ranks before it take.
results_ring <- function(rank, size, endpoint, timeout) {
  ring_init(
    rank = rank, size = size, root_address = endpoint$host, token = endpoint$token,
    job = "sparkring results", timeout = timeout, call_timeout = 1e8, warn_after = 0,
    shared_memory = FALSE, connections = 1, encryption = TRUE, backend = "native",
    timeline = ""
  )
}

# ---- On the driver -------------------------------------------------------------------------------

# Receives the large values of the ranks of an attempt, until results_close(). `route` is sent to
# the ranks. `host` is the address of the driver, and `limit` Spark's own limit.
results_open <- function(host, size, directory = NULL, limit = "1g") {
  route <- list(most = results_most(size, limit), directory = directory, connect = results_connect)
  if (!is.null(directory)) {
    route$name <- paste0("result-", paste(random_bytes(8), collapse = ""))
    return(list(route = route, size = size, folder = folder_create()))
  }
  folder <- folder_create()
  endpoint <- list(host = host, token = random_bytes(32))
  child <- tryCatch(
    child_start(function() results_receive(endpoint, size, folder), captured = FALSE),
    error = function(error) NULL
  )
  if (!is.null(child)) route$endpoint <- endpoint
  list(route = route, size = size, folder = folder, child = child)
}

# Deletes all files, also when the attempt has failed.
results_close <- function(results) {
  if (!is.null(results$child)) child_kill(results$child)
  folder_remove(results$folder)
  if (is.null(results$route$directory)) return()
  shared <- results_shared(results$route, seq_len(results$size) - 1L)
  unlink(c(shared, paste0(shared, "-new")))
}

# The largest value that Spark carries, so that the values of all ranks fit.
results_most <- function(size, limit) {
  most <- min(results_largest, floor(results_total / size))
  limit <- results_bytes(limit)
  if (limit > 0) max(0, min(most, floor(limit / 2 / size) - results_spare)) else most
}

# Parses a size as Spark does. 0 where it is invalid; Spark raises its own error then.
results_bytes <- function(text) {
  text <- tolower(text)
  found <- regmatches(text, regexec("^\\s*([0-9]+)\\s*([bkmgtp]?)b?\\s*$", text))[[1L]]
  if (length(found) == 0L) return(0)
  unit <- max(1, regexpr(found[[3L]], "bkmgtp", fixed = TRUE))
  as.double(found[[2L]]) * 1024^(unit - 1)
}

# Receives values into files in `folder`. Runs in a process of its own.
results_receive <- function(endpoint, size, folder) {
  tryCatch({
    ring <- results_ring(0L, size + 1L, endpoint, 1e8)
    tryCatch({
      sizes <- ring_gather(ring, 0)[-1L]
      for (rank in which(sizes > 0) - 1L) {
        results_take(ring, rank, sizes[[rank + 1L]], results_file(folder, rank))
      }
      ring_barrier(ring)
      ring_close(ring)
    }, error = function(error) {
      ring_abort(ring, substr(paste("the driver failed:", conditionMessage(error)), 1L, 200L))
    })
  }, error = function(error) NULL) # the ranks get the error by the ring
}

results_take <- function(ring, rank, size, file) {
  connection <- results_file_open(file, "wb")
  on.exit(close(connection))
  left <- size
  while (left > 0) {
    piece <- ring_recv(ring, raw(min(left, results_piece)), rank + 1L)
    writeBin(piece, connection)
    left <- left - length(piece)
  }
  flush(connection)
}

# Adds the values that Spark has not carried to the results. Returns a condition as it is.
results_fetch <- function(rank_results, results) {
  if (inherits(rank_results, "condition")) return(rank_results)
  failed <- !vapply(rank_results, function(rank_result) is.null(rank_result$failure), NA)
  # The failed or missing ones raise an error.
  if (any(failed) || length(rank_results) < results$size) return(rank_results)
  lapply(rank_results, function(rank_result) {
    if (is.null(rank_result$size)) return(rank_result)
    file <- results_file(results$folder, rank_result$rank)
    if (!is.null(results$route$directory)) results_collect(rank_result, file, results$route)
    if (!identical(file.size(file), rank_result$size)) {
      ring_stop("SYSTEM", call = NULL, paste0(
        "the driver has ", file.size(file), " of the ", rank_result$size, " bytes of the value of ",
        "rank ", rank_result$rank, ": is the disk of ", tempdir(), " full?"
      ))
    }
    rank_result$value <- list(results_read(file))
    unlink(file)
    rank_result
  })
}

# Copies a file out of the directory that the user has named. Other users may write there, so its
# SHA-256 must match.
results_collect <- function(rank_result, file, route) {
  shared <- results_shared(route, rank_result$rank)
  copied <- suppressWarnings(file.copy(shared, file, overwrite = TRUE))
  if (copied && identical(.Call(C_digest_file, file), rank_result$digest)) return()
  ring_stop("SYSTEM", call = NULL, paste0(
    "the value of rank ", rank_result$rank, if (copied) " was changed in " else " is not in ",
    route$directory, ": pass `results` with a directory that ",
    if (copied) "only this user can write to" else "the executors and this machine share"
  ))
}

# Checks the directory that the user names. With a local master a relative path is relative to the
# working directory of this process, as for the ranks.
results_directory <- function(x, local, call) {
  if (is.null(x)) return(NULL)
  if (!is_string(x) || !nzchar(x) || grepl("^[A-Za-z][A-Za-z0-9+.-]+:/", x)) {
    check_stop("`results` must be the path of a directory that the executors and this machine ",
               "share, as one string, not ", describe(x), call = call)
  }
  path <- path.expand(x)
  if (startsWith(path, "/")) return(path)
  if (local) return(file.path(getwd(), path))
  check_stop("`results` is the relative path ", path, ", and executors have working directories ",
             "of their own: pass an absolute path of a directory that the hosts share", call = call)
}

# The error for values that are together too large for Spark; NULL where `text` is of another error.
results_explain <- function(text) {
  found <- regmatches(text, regexec(paste0(
    "Total size of serialized results of ([0-9]+) tasks \\(([^)]*)\\) is bigger than ",
    "[^\n]*maxResultSize \\(?([0-9.]+ \\w+)"
  ), text))[[1L]]
  if (length(found) == 0L) return(NULL)
  tryCatch(ring_stop("UNSUPPORTED", call = NULL, paste0(
    "the results of ", found[[2L]], " ranks together take ", found[[3L]], " in Spark, and ",
    results_maximum, " allows ", found[[4L]], ": raise it. Spark carries the results because the ",
    "ranks could not send them to the driver: ", results_advice
  )), error = identity)
}
