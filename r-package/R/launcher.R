# SPDX-License-Identifier: Apache-2.0
#
# Launches a program of any language as the ranks of a job on this machine, without Spark and
# without Python. A supervisor process starts and ends the ranks (src/supervisor.h). This file
# parses the arguments, and shows the output of the ranks. Python's _launch/launcher.py does the
# same, with the same texts.

launcher_poll <- 0.1 # seconds between two checks for an interrupt
launch_usage <- paste(
  "usage: sparkring-run -n SIZE [--timeout SECONDS] [--ports FIRST-LAST] [--encryption]",
  "[--timeline DIR] [--] command ...\n       sparkring-run --version"
)

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
  settings <- launch_settings(size, timeout, ports, encryption, check_string(timeline, "timeline"))
  job <- launch_start(command, settings, input = !interactive(), direct = FALSE)
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

# The size of the job and the environment of all ranks, with the library paths of this R.
launch_settings <- function(size, timeout = NULL, ports = NULL, encryption = FALSE,
                            timeline = NULL) {
  list(size = size, environment = c(
    SPARKRING_LAUNCHER = 1L, # so that no rank puts its number before its lines a second time
    SPARKRING_SIZE = size,
    SPARKRING_ADDRESSES = paste(rep("127.0.0.1", size), collapse = ","),
    SPARKRING_TIMEOUT = timeout, SPARKRING_PORTS = ports,
    SPARKRING_ENCRYPTION = if (encryption) 1L,
    SPARKRING_TIMELINE = if (!is.null(timeline)) timeline_absolute(timeline),
    R_LIBS = paste(.libPaths(), collapse = .Platform$path.sep)
  ))
}

# ---- The job ------------------------------------------------------------------------------------

launch_start <- function(command, settings, input, direct) {
  started <- .Call(
    C_launcher_start, command,
    paste(names(settings$environment), settings$environment, sep = "="), settings$size,
    random_hex(32), input, direct
  )
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
  options <- tryCatch(launch_options(arguments), launch_usage = function(condition) {
    cat(launch_usage, "\nsparkring-run: error: ", conditionMessage(condition), "\n", sep = "",
        file = stderr())
    2L
  })
  if (is.numeric(options)) return(options)
  settings <- do.call(launch_settings, options[names(options) != "command"])
  job <- launch_start(options$command, settings, input = TRUE, direct = TRUE)
  .Call(C_launcher_wait, job$process, job$lifeline)
}

launch_fail <- function(...) {
  fields <- list(message = paste0(...), call = NULL)
  stop(structure(class = c("launch_usage", "error", "condition"), fields))
}

# Parses the options. Returns a list, or an exit code for options such as --help.
launch_options <- function(arguments) {
  options <- list(size = NULL, timeout = NULL, ports = NULL, encryption = FALSE, timeline = NULL)
  while (length(arguments) > 0L && startsWith(arguments[[1L]], "-")) {
    given <- launch_value(arguments)
    switch(
      given$name,
      "--" = return(launch_complete(options, arguments[-1L])),
      "-h" = , "--help" = return(launch_help()),
      "--version" = return(launch_version()),
      "-n" = , "--size" = options$size <- launch_size(given$value),
      "--timeout" = options$timeout <- given$value,
      "--ports" = options$ports <- given$value,
      "--encryption" = options$encryption <- TRUE,
      "--timeline" = options$timeline <- given$value,
      launch_fail("unrecognized arguments: ", arguments[[1L]])
    )
    arguments <- arguments[-seq_len(given$length)]
  }
  launch_complete(options, arguments)
}

# Splits the first argument into name and value: -n 4, -n4, --size 4 or --size=4.
launch_value <- function(arguments) {
  first <- arguments[[1L]]
  if (grepl("^-n.", first)) return(list(name = "-n", value = substring(first, 3L), length = 1L))
  name <- sub("=.*", "", first)
  if (!name %in% c("-n", "--size", "--timeout", "--ports", "--timeline")) {
    return(list(name = first, length = 1L))
  }
  if (grepl("=", first, fixed = TRUE)) {
    return(list(name = name, value = sub("^[^=]*=", "", first), length = 1L))
  }
  if (length(arguments) < 2L) launch_fail("argument ", name, ": expected one argument")
  list(name = name, value = arguments[[2L]], length = 2L)
}

launch_size <- function(text) {
  size <- if (grepl("^[0-9]{1,9}$", text)) as.integer(text) else 0L
  if (size < 1L) launch_fail("argument -n/--size: '", text, "' is not 1 or more")
  size
}

launch_complete <- function(options, command) {
  if (is.null(options$size)) launch_fail("the following arguments are required: -n/--size")
  if (length(command) == 0L) {
    launch_fail("the command is missing, as in: sparkring-run -n 4 Rscript train.R")
  }
  c(options, list(command = command))
}

launch_version <- function() {
  cat("sparkring ", format(utils::packageVersion("sparkring")), "\n", sep = "")
  0L
}

launch_help <- function() {
  cat(
    launch_usage, "",
    "Start the ranks of a sparkring job on this machine.", "",
    "  -n, --size SIZE      number of ranks",
    "  --timeout SECONDS    time limit of the rendezvous of all ranks",
    "  --ports FIRST-LAST   ports to listen on",
    "  --encryption         encrypt what the ranks send through sockets",
    "  --timeline DIR       directory for the timelines of the ranks",
    "  --version            print the version of sparkring", "",
    "Each line of output begins with the rank, as in '[2] epoch 1'. When a rank fails, the other",
    "ranks are ended, and the exit code is that of the failed rank (128 + number for a signal).",
    "Rank 0 has the standard input. Signals are passed on to all ranks.",
    sep = "\n"
  )
  0L
}
