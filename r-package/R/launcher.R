# SPDX-License-Identifier: Apache-2.0
#
# Launches a program of any language as the ranks of a job on this machine, without Spark and
# without Python. A supervisor process starts and ends the ranks, and parses the command line
# (src/core/launch). This file checks the arguments of ring_launch(), and shows the output of the
# ranks.

launcher_poll <- 0.1 # seconds between two checks for an interrupt

#' Launch a program on the ranks of a ring, on this machine
#'
#' `ring_launch()` starts a script of R, or a command, in `n` processes of this machine: the ranks.
#' In each process [ring_init()] without arguments opens the communicator of the ranks.
#' `ring_launch()` returns when all ranks have ended.
#'
#' @details
#' Each line of output is shown with the rank before it, as in `[2] epoch 1`. When a rank fails, the
#' launcher ends the other ranks by `SIGTERM` and, 10 seconds later, by `SIGKILL`. At the end of the
#' job it kills all processes that the ranks have started.
#'
#' In a shell, the script `sparkring-run` in the directory `exec` of the package does the same, and
#' so does `sparkring-run` of the Python package:
#'
#' ```sh
#' run=$(Rscript -e 'cat(system.file("exec/sparkring-run", package = "sparkring"))')
#' Rscript "$run" -n 4 Rscript train.R
#' ```
#'
#' The script forwards signals to all ranks. Rank 0 has the standard input of the script.
#'
#' @param command A character vector: the path of a script of R, which ends in `.R`; or a command
#'   with its first arguments, such as `c("python", "train.py")`. A script runs in this version of R
#'   with its library paths.
#' @param n The number of ranks, a whole number.
#' @param args Further arguments of the script or command, a character vector.
#' @param timeout The time limit of the rendezvous of the ranks, in seconds. `NULL`: 300.
#' @param ports The ports to listen on: the first and the last port of a range, such as
#'   `c(5000, 5099)`. `NULL`: any port.
#' @param encryption Whether the ranks encrypt the bytes that they send through sockets, `TRUE` or
#'   `FALSE`.
#' @param timeline A directory for the timelines of the ranks, see [ring_timeline_start()]. `NULL`:
#'   none.
#' @returns The exit code of the job, one integer, invisibly. It is 0 after a success, else the exit
#'   code of the first rank that failed: 128 + number for a signal, and 127 for a command that does
#'   not exist.
#' @section Interrupts:
#' Ctrl-C interrupts the ranks. The call waits until the ranks have ended, at most 10 seconds.
#' @section Errors:
#' `ring_error_invalid` for an invalid argument. `ring_error_system` when no process can be started.
#' The failure of a rank is no error of R: check the exit code.
#' @seealso [ring_run()], for a function instead of a script; [ring_init()].
#' @examples
#' \donttest{
#' script <- tempfile(fileext = ".R")
#' writeLines("
#'   comm <- sparkring::ring_init()
#'   cat('the sum is', sparkring::ring_allreduce(comm, 1), '\n')
#'   sparkring::ring_close(comm)
#' ", script)
#' code <- ring_launch(script, n = 2)
#' code
#' }
#' @export
ring_launch <- function(command, n, args = character(), timeout = NULL, ports = NULL,
                        encryption = FALSE, timeline = NULL) {
  check_given(command)
  if (!(is.character(args) || is.numeric(args)) || anyNA(args)) {
    check_stop("`args` must be strings, not ", describe(args))
  }
  command <- c(launch_command(command), as.character(args))
  if (missing(n)) {
    check_stop("`n` is missing: pass the number of ranks, as in n = 4", call = sys.call())
  }
  size <- check_whole(n, "n", least = 1)
  if (!is.null(timeout)) timeout <- check_seconds(timeout, "timeout")
  if (!is.null(ports)) ports <- paste(check_ports(ports), collapse = "-")
  encryption <- check_flag(encryption, "encryption")
  timeline <- check_string(timeline, "timeline")
  environment <- c(
    R_LIBS = launch_libraries(), SPARKRING_TIMEOUT = timeout, SPARKRING_PORTS = ports,
    SPARKRING_ENCRYPTION = if (encryption) 1L,
    SPARKRING_TIMELINE = if (!is.null(timeline)) timeline_absolute(timeline)
  )
  job <- launch_start(command, environment, size)
  on.exit(launch_end(job))
  launch_show(job)
  invisible(job$code)
}

# The command of the ranks. A script of R runs in this version of R.
launch_command <- function(command) {
  if (!is.character(command) || length(command) == 0L || anyNA(command)) {
    check_stop("`command` must be a script, or a command with its arguments, not ",
               describe(command), call = sys.call(-1))
  }
  if (length(command) > 1L || !grepl("[.][Rr]$", command)) return(command)
  if (!file.exists(command)) {
    check_stop("`command` is the script ", command, ", which does not exist in ", getwd(),
               ": pass the path of a script", call = sys.call(-1))
  }
  c(file.path(R.home("bin"), "Rscript"), path.expand(command))
}

# ---- The job ------------------------------------------------------------------------------------

launch_start <- function(command, environment, size) {
  variables <- paste(names(environment), environment, sep = "=")
  started <- .Call(C_launcher_start, command, variables, size, !interactive())
  list2env(list(
    process = started[[1L]], lifeline = started[[2L]], pipes = started[3:4], code = NULL
  ))
}

# Shows the output of the ranks until the job has ended.
launch_show <- function(job) {
  printers <- list(launch_printer(stdout()), launch_printer(stderr()))
  repeat {
    if (is.null(job$code)) job$code <- .Call(C_launcher_code, job$process, job$lifeline)
    open <- which(!is.na(job$pipes))
    if (length(open) == 0L && !is.null(job$code)) break
    pieces <- .Call(C_stdio_read, job$pipes[open], launcher_poll)
    for (i in seq_along(open)) {
      pipe <- open[[i]]
      if (is.null(pieces[[i]])) launch_close_pipe(job, pipe) else printers[[pipe]](pieces[[i]])
    }
  }
}

# Makes a function that prints bytes when a line is complete, because the reader of a connection may
# treat each write as a line.
launch_printer <- function(connection) {
  begun <- raw()
  function(bytes) {
    begun <<- c(begun, bytes[bytes != 0L])
    ends <- which(begun == 0x0aL)
    if (length(ends) == 0L) return()
    whole <- seq_len(ends[[length(ends)]])
    cat(rawToChar(begun[whole]), file = connection, sep = "")
    begun <<- begun[-whole]
  }
}

launch_close_pipe <- function(job, which) {
  .Call(C_stdio_close, job$pipes[which])
  job$pipes[[which]] <- NA_integer_
}

# Interrupts the ranks of an interrupted job, and waits for their end. When the lifeline closes, the
# supervisor kills them.
launch_end <- function(job) {
  on.exit({
    .Call(C_launcher_close_lifeline, job$lifeline)
    while (is.null(job$code)) {
      Sys.sleep(0.01)
      job$code <- .Call(C_launcher_code, job$process, job$lifeline)
    }
    .Call(C_stdio_close, c(job$lifeline, job$pipes[!is.na(job$pipes)]))
  })
  if (!is.null(job$code)) return()
  .Call(C_launcher_signal, job$process, tools::SIGINT)
  launch_show(job)
}

# ---- The command line ---------------------------------------------------------------------------

# The entry point of exec/sparkring-run. Returns the exit code.
launch_main <- function(arguments) {
  Sys.setenv(R_LIBS = launch_libraries())
  .Call(C_launcher_command_line, c("sparkring-run", arguments))
}

launch_libraries <- function() paste(.libPaths(), collapse = .Platform$path.sep)
