# SPDX-License-Identifier: Apache-2.0
#
# ring_mpi_run(): each rank starts an MPI program, and the programs find each other. Python's
# _mpi/mpi_run.py does the same.

mpi_slice <- 0.05 # seconds between two looks at the other ranks

mpi_late <- 0.2 # seconds for the server to read the end of a program

# Variables of other launchers, which MPI libraries would take for theirs; and secrets.
mpi_foreign <- "PMI_|PMIX_|HYDI_|HYDRA_|MPIEXEC_|MPI_LOCAL|OMPI_|PALS_|SLURM_|FLUX_"
mpi_secrets <- paste0(
  "SPARKRING_|PYTHON_WORKER_FACTORY_SECRET|PYSPARK_GATEWAY_SECRET|_SPARK_AUTH_SECRET|",
  "_SPARK_LAUNCHER_SECRET|SPARKR_WORKER_SECRET|SPARKR_BACKEND_AUTH_SECRET"
)

#' Run MPI programs on the ranks
#'
#' `ring_mpi_run()` starts an MPI program on every rank, and returns when all programs have ended.
#' All ranks call it. `ring_mpi()` is a whole job: it runs the program on the ranks of a ring, as
#' the tasks of a Spark barrier stage.
#'
#' @details
#' The program of a rank has this rank in `MPI_COMM_WORLD`. No mpiexec is needed. The programs find
#' each other by PMI-1, which MPICH uses, libraries made from it, and programs of the MPI 5 ABI that
#' run over MPICH; or by PMIx, which Open MPI 4 and 5 use. PMIx is served where sparkring was
#' installed with PMIx on all hosts. All programs use the same MPI library. That holds for scripts
#' of R, too: Debian's `r-cran-rmpi` is built over Open MPI. Programs without MPI work, if no rank's
#' program uses MPI. `MPI_Comm_spawn` fails. The communicator can be used afterwards.
#'
#' A program that fails, is killed or calls `MPI_Abort` ends the programs of all ranks, with all
#' their descendants. So does a rank that dies, and an interrupt or an error in this call.
#'
#' The program and its MPI library must be on the executors. By default the output of the program
#' goes to the output of the rank, line by line, with the rank before each line: on Spark to the log
#' of the executor.
#'
#' @inheritParams ring_rank
#' @param .sc A connection, from `sparklyr::spark_connect()`, or `NULL` with a negative `num_proc`,
#'   as for [ring_run()].
#' @param command A character vector: the program, as a path or a name in `PATH`, and optionally its
#'   first arguments, such as `c("Rscript", "solve.R")`. Ranks may pass different commands.
#' @param args Further arguments of the program, a character vector.
#' @param env Variables to set besides those of the rank's process, of which a program does not
#'   inherit those of sparkring and other launchers, nor the secrets of Spark: a character vector
#'   with names, such as `c(OMP_NUM_THREADS = "4")`. `R_LIBS` has the library paths of the rank.
#' @param wd The working directory of the program, one string. `NULL`: that of the rank's process.
#' @param allow_plain Whether programs may run where the communicator encrypts, `TRUE` or `FALSE`.
#'   MPI connects the programs by itself, neither authenticated nor encrypted. So where the
#'   communicator encrypts, the call is refused unless `allow_plain` is `TRUE`.
#' @param pmix Whether to serve PMIx, by a process on each host. `NULL`: where all hosts can;
#'   elsewhere a program of Open MPI is alone in its `MPI_COMM_WORLD`. Pass `TRUE` for programs of
#'   Open MPI, to raise an error instead, and `FALSE` for programs of MPICH, which start a little
#'   faster. All ranks pass the same.
#' @param output A function that is called with each line of output, one string. `NULL`: lines go to
#'   the output of this process.
#' @param num_proc The number of ranks, as for [ring_run()].
#' @param ... Further arguments of [ring_run()], such as `packages`, `timeout` or `max_restarts`.
#' @returns `NULL`, invisibly.
#' @section Errors:
#' * `ring_error_aborted`, on every rank, when a program fails or cannot be started. The message
#'   names rank, host, and signal or exit code, and has the last lines of the program's output.
#' * `ring_error_mismatch` when a program has ended while another program waits for it in `MPI_Init`
#'   or `MPI_Finalize`.
#' * `ring_error_unsupported` when the communicator encrypts, without `allow_plain`, and when a host
#'   cannot serve PMIx, with `pmix = TRUE`. The message names rank, host and reason.
#' * `ring_error_invalid` for an invalid argument.
#' * `ring_error_peer_lost` and `ring_error_timeout` when a rank dies or cannot be reached.
#'
#' `ring_mpi()` raises these errors as `ring_error_remote`, as [ring_run()] does.
#' @seealso [ring_mpi_init()], for MPI inside the ranks; [ring_run()]; [ring_launch()], for programs
#'   that call [ring_init()].
#' @examples
#' comm <- ring_init()
#' ring_mpi_run(comm, "echo", "hello") # a program without MPI
#' ring_close(comm)
#' \dontrun{
#' # Needs a program that is linked to MPICH.
#' ring_mpi_run(comm, "./solve", c("--steps", "100"), env = c(OMP_NUM_THREADS = "4"))
#'
#' # Needs Spark.
#' sc <- sparklyr::spark_connect(master = "local[4]")
#' ring_mpi(sc, "./solve", c("--steps", "100"), num_proc = 4)
#' }
#' @export
ring_mpi_run <- function(comm, command, args = character(), env = character(), wd = NULL,
                         allow_plain = FALSE, pmix = NULL, output = NULL) {
  check_given(comm, command)
  command <- mpi_command(command, args)
  mpi_check_env(env)
  wd <- check_string(wd, "wd")
  allow_plain <- check_flag(allow_plain, "allow_plain")
  if (!is.null(pmix)) pmix <- check_flag(pmix, "pmix")
  mpi_check_output(output)
  mpi_check_plain(comm, allow_plain)
  write <- if (is.null(output)) mpi_printer(ring_rank(comm)) else mpi_caller(output)
  pmi <- .Call(C_pmi_serve, comm, !isFALSE(pmix))
  on.exit(.Call(C_pmi_free, pmi))
  if (isTRUE(pmix)) mpi_check_pmix(pmi)
  call <- sys.call()
  tryCatch(
    mpi_abort_with(pmi, mpi_watch(pmi, command, env, wd, write)),
    ring_error = function(error) {
      error$call <- call
      stop(error)
    }
  )
  invisible(NULL)
}

# ---- Arguments -----------------------------------------------------------------------------------

# The whole command.
mpi_command <- function(command, args) {
  for (part in list(command, args)) {
    if (is.character(part) && !anyNA(part)) next
    check_stop("`command` and `args` must be character vectors, as in \"./program\" and ",
               "c(\"--steps\", \"100\"), not ", describe(part))
  }
  if (length(command) == 0L || !nzchar(command[[1L]])) {
    check_stop("`command` is empty: pass a program, as in \"./program\"")
  }
  c(command, args)
}

mpi_check_env <- function(env) {
  names <- names(env)
  named <- is.character(env) && !anyNA(env) && length(names) == length(env)
  if (named && !anyNA(names) && !any(names == "" | grepl("=", names, fixed = TRUE))) return()
  check_stop("`env` must be a character vector with names, as in c(OMP_NUM_THREADS = \"4\"), not ",
             describe(env))
}

mpi_check_plain <- function(comm, allow_plain) {
  if (!.Call(C_comm_encrypted, comm) || allow_plain) return()
  ring_stop("UNSUPPORTED", call = sys.call(-1), paste(
    "this communicator encrypts, and MPI connects programs without authentication or encryption:",
    "pass allow_plain = TRUE where the network between the hosts is trusted"
  ))
}

# All ranks have the same problem.
mpi_check_pmix <- function(pmi) {
  problem <- .Call(C_pmi_pmix_problem, pmi)
  if (is.null(problem)) return()
  .Call(C_pmi_close, pmi)
  ring_stop("UNSUPPORTED", call = sys.call(-1), paste0(
    "PMIx, which programs of Open MPI need, cannot be served: ", problem, ". Install PMIx and its ",
    "headers (libpmix-dev, pmix-devel) on every host, and sparkring after them, from source"
  ))
}

mpi_check_output <- function(output) {
  if (is.null(output) || is.function(output)) return()
  check_stop("`output` must be a function or NULL, not ", describe(output))
}

# Names of variables of this process that begin as one of `starts`.
mpi_names <- function(starts) {
  grep(paste0("^(", paste(starts, collapse = "|"), ")"), names(Sys.getenv()), value = TRUE)
}

# Variables of the program: "NAME=value" to set, and "NAME" to remove.
mpi_variables <- function(env, pmi) {
  removed <- mpi_names(c(mpi_foreign, mpi_secrets))
  env <- c(R_LIBS = paste(.libPaths(), collapse = .Platform$path.sep), env)
  c(removed, paste(names(env), env, sep = "="), .Call(C_pmi_environment, pmi))
}

# ---- Output --------------------------------------------------------------------------------------

# Whether nothing else puts the rank before the lines of this process. On Spark nothing does.
mpi_needs_rank <- function() {
  local <- run_state$supervised && !run_state$executor
  !local && !nzchar(Sys.getenv("SPARKRING_LAUNCHER"))
}

# Makes a function that prints lines to the output of this process.
mpi_printer <- function(rank) {
  prefix <- if (mpi_needs_rank()) paste0("[", rank, "] ") else ""
  function(target, lines) {
    connection <- if (target == 1L) stdout() else stderr()
    Encoding(lines) <- "unknown" # the bytes as they are, in any locale
    cat(paste0(prefix, lines, "\n"), file = connection, sep = "")
  }
}

# Makes a function that passes lines to the user's function.
mpi_caller <- function(output) {
  function(target, lines) for (line in lines) output(line)
}

# Evaluates `code`. An error or an interrupt ends the programs of all ranks, before this rank has
# cleaned up. Only the first reason counts.
mpi_abort_with <- function(pmi, code) {
  withCallingHandlers(
    code,
    error = function(error) .Call(C_pmi_abort, pmi, mpi_reason(error)),
    interrupt = function(condition) .Call(C_pmi_abort, pmi, "interrupted")
  )
}

# The message of an error; its class where it has none.
mpi_reason <- function(error) {
  text <- tryCatch(
    paste(iconv(conditionMessage(error), sub = "byte"), collapse = "\n"),
    error = function(error) ""
  )
  if (nzchar(text)) text else class(error)[[1L]]
}

# ---- The program ---------------------------------------------------------------------------------

# Copies the output until the program has ended well. Any other end of a rank raises an error.
mpi_watch <- function(pmi, command, env, wd, write) {
  wd <- if (!is.null(wd)) path.expand(wd)
  program <- program_start(pmi, command, mpi_variables(env, pmi), wd, write)
  on.exit(program_close(program))
  while (!program$ended && .Call(C_pmi_test, pmi)$state != "aborted") {
    program_read(program, mpi_slice)
    program_receive(program)
  }
  program_stop(program)
  program_drain(program)
  why <- mpi_failure(pmi, program, wd)
  if (!is.null(why)) {
    name <- sQuote(substr(command[[1L]], 1L, 200L), FALSE)
    .Call(C_pmi_abort, pmi, paste("the program", name, why))
  }
  .Call(C_pmi_test, pmi)
  .Call(C_pmi_close, pmi)
}

# Describes how the program has failed, with its last lines; NULL: it has not.
mpi_failure <- function(pmi, program, wd) {
  if (!program$started) {
    where <- if (!program$in_directory) paste(" in", sQuote(wd, FALSE))
    return(paste0("cannot be started", where, ": ", program$failure))
  }
  last <- mpi_last_state(pmi)
  how <- if (last$state == "aborted") {
    paste("called MPI_Abort with exit code", last$code)
  } else if (!is.null(program$failure)) {
    program$failure
  } else if (last$state %in% c("active", "lost")) {
    "ended without MPI_Finalize"
  }
  if (!is.null(how)) paste0(how, program_tail(program))
}

# The state of a program that has ended. Its server may still have to read its end.
mpi_last_state <- function(pmi) {
  until <- .Call(C_clock_seconds) + mpi_late
  repeat {
    last <- .Call(C_pmi_test, pmi)
    if (last$state != "active" || .Call(C_clock_seconds) >= until) return(last)
    Sys.sleep(0.001)
  }
}
