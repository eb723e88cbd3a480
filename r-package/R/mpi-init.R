# SPDX-License-Identifier: Apache-2.0
#
# ring_mpi_init(): MPI inside the process of a rank. Python's _mpi/mpi_init.py does the same for
# mpi4py.

#' Use MPI inside the ranks
#'
#' `ring_mpi_init()` evaluates code in which this process initializes and finalizes MPI, such as
#' with the package Rmpi or pbdMPI. All ranks call it. `MPI_COMM_WORLD` has the ranks of the
#' communicator, which can be used beside MPI.
#'
#' @details
#' The package must have been built over MPICH 4, a library made from it, or, where PMIx is served,
#' Open MPI 4 or 5, as Debian's `r-cran-rmpi` is. MPICH 5 leaves PMI at the exit of the process
#' only, which is too late here. Load the package inside the code, because that initializes MPI, and
#' finalize MPI there, as `Rmpi::mpi.finalize()` does.
#'
#' A process can initialize MPI once. On Spark, [ring_apply()] and [ring_run()] give each call new
#' processes.
#'
#' MPI has no deadline, and no interrupt ends a call of MPI that waits for a rank that has died or
#' failed. [ring_apply()] and [ring_run()] end the ranks 5 seconds after one has failed, whatever
#' they do. [ring_mpi_run()] ends programs of MPI in every case.
#'
#' @inheritParams ring_mpi_run
#' @param code An expression.
#' @returns The value of `code`.
#' @section Errors:
#' The error of `code` where `code` fails, and `ring_error_aborted` on the other ranks.
#' `ring_error_aborted`, on every rank, when `code` does not finalize MPI. `ring_error_unsupported`
#' when `code` does not initialize MPI, when the communicator encrypts, without `allow_plain`, and
#' when a host cannot serve PMIx, with `pmix = TRUE`. Other failures are those of
#' [ring_allreduce()].
#' @seealso [ring_mpi_run()], for MPI programs.
#' @examples
#' \dontrun{
#' # Needs Rmpi.
#' comm <- ring_init()
#' ring_mpi_init(comm, {
#'   total <- Rmpi::mpi.allreduce(1, type = 2, comm = 0)
#'   Rmpi::mpi.finalize()
#'   total
#' })
#' ring_close(comm)
#' }
#' @export
ring_mpi_init <- function(comm, code, allow_plain = FALSE, pmix = NULL) {
  check_given(comm, code)
  allow_plain <- check_flag(allow_plain, "allow_plain")
  if (!is.null(pmix)) pmix <- check_flag(pmix, "pmix")
  mpi_check_plain(comm, allow_plain)
  pmi <- .Call(C_pmi_serve, comm, !isFALSE(pmix))
  on.exit(.Call(C_pmi_free, pmi))
  if (isTRUE(pmix)) mpi_check_pmix(pmi)
  mpi_abort_with(pmi, {
    restore <- mpi_join(pmi)
    on.exit(restore(), add = TRUE, after = FALSE)
    value <- code
    mpi_check_used(pmi, ring_size(comm))
    .Call(C_pmi_leave)
    .Call(C_pmi_close, pmi)
  })
  value
}

# Refuses code after which each rank may have been alone in a world of its own.
mpi_check_used <- function(pmi, size) {
  if (size == 1L || .Call(C_pmi_test, pmi)$state != "silent") return()
  problem <- .Call(C_pmi_pmix_problem, pmi)
  ring_stop("UNSUPPORTED", call = NULL, paste0(
    "`code` has not initialized MPI over PMI-1 or PMIx: load a package such as Rmpi inside `code` ",
    "and in a process that has not initialized MPI before",
    if (!is.null(problem)) paste0("; PMIx, which Open MPI needs, cannot be served: ", problem)
  ))
}

# Sets the variables of PMI in this process. Returns a function that restores the variables.
mpi_join <- function(pmi) {
  entries <- .Call(C_pmi_environment, pmi)
  variables <- stats::setNames(sub("^[^=]*=", "", entries), sub("=.*$", "", entries))
  variables[["PMI_FD"]] <- as.character(.Call(C_pmi_join, pmi))
  foreign <- mpi_names(mpi_foreign)
  before <- if (length(foreign) > 0L) Sys.getenv(foreign, names = TRUE) # of no names it gives all
  Sys.unsetenv(names(before))
  do.call(Sys.setenv, as.list(variables))
  function() {
    Sys.unsetenv(unique(c(names(variables), mpi_names(mpi_foreign)))) # MPI sets some, too
    if (length(before) > 0L) do.call(Sys.setenv, as.list(before))
  }
}
