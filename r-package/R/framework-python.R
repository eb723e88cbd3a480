# SPDX-License-Identifier: Apache-2.0
#
# Python in the same R process, by reticulate. Its communicator is a second one between the same
# ranks: each language has a copy of the core. The rendezvous of Python runs over the communicator
# of R, which carries the public keys of the ranks. So Python needs no token and guesses no port.

#' Join the ranks from Python in the same R process
#'
#' The Python of reticulate opens a communicator between the same ranks, with the same rank numbers.
#' `sparkring.init()` in Python returns it. So `hvd.init()` of `sparkring.torch`, `sparkring.keras`
#' and `sparkring.tensorflow` uses it, and an R closure trains a model of PyTorch or Keras with
#' them. All ranks call the function.
#'
#' The two communicators are independent. `ring_close()` closes that of R, and the method `close()`
#' that of Python. A second call returns the open communicator of Python. R and Python take turns in
#' a process, so all ranks use the two communicators in the same order.
#'
#' The ranks prove themselves to each other by keys that the communicator of R carries. Where links
#' of R are encrypted, those of Python are, too.
#'
#' @inheritParams ring_tf_config
#' @returns The communicator of Python, an object of Python's class `sparkring.Communicator`. Its
#'   methods are those of `help(sparkring.Communicator)`, for example `comm$allreduce(x)`. Arrays of
#'   its results are converted to R.
#' @section Errors:
#' As for [ring_allreduce()]. In addition, `ring_error_unsupported` when reticulate or Python's
#' package sparkring is missing. An error on one rank is an error on all ranks. On the other ranks
#' it is a `ring_error_invalid` with the rank, its host and its message.
#' @seealso [ring_torch_env()] and the functions beside it, for the frameworks' own collectives.
#' @examples
#' \dontrun{
#' # Needs Spark, and Keras in the Python of reticulate.
#' sc <- sparklyr::spark_connect(master = "local[4]")
#' workers <- sparklyr::sdf_len(sc, 4, repartition = 4)
#' trained <- sparklyr::spark_apply(workers, function(df, barrier) {
#'   sparkring::ring_python(barrier)
#'   hvd <- reticulate::import("sparkring.keras")
#'   hvd$init()
#'   # Train a model here, with its optimizer in hvd$DistributedOptimizer().
#'   # Return a data frame with the columns of `columns`:
#'   data.frame(rank = hvd$rank())
#' }, columns = c(rank = "integer"), barrier = TRUE, packages = FALSE)
#' sparklyr::sdf_collect(trained)
#' }
#' @export
ring_python <- function(comm, ...) {
  check_given(comm)
  with_frameworks_comm(comm, ..., code = function(comm) {
    opened <- agree(comm, python_opened())
    if (!is.null(opened)) return(opened)
    run_state <- reticulate::import("sparkring._run_state", convert = FALSE)
    python <- reticulate::import("sparkring")$init(
      rank = as.integer(ring_rank(comm)),
      addresses = as.list(ring_hosts(comm)),
      exchange = function(text) as.list(allgather_strings(comm, text)),
      encryption = .Call(C_comm_encrypted, comm)
    )
    run_state$set_communicator(python)
    frameworks_kept$python <- python
    python
  })
}

# The communicator of Python that an earlier call has opened, or NULL. An error where Python has no
# package sparkring.
python_opened <- function() {
  if (!requireNamespace("reticulate", quietly = TRUE)) {
    ring_stop("UNSUPPORTED", call = NULL, paste(
      "ring_python() runs Python by the package reticulate, which is not installed:",
      "install.packages(\"reticulate\")"
    ))
  }
  tryCatch(reticulate::import("sparkring", convert = FALSE), error = function(error) {
    python_missing(error, "ring_python() needs Python's package sparkring", "sparkring")
  })
  opened <- frameworks_kept$python
  if (!is.null(opened) && isTRUE(opened$usable)) opened
}

# Raises an error that names the Python, which reticulate's own error does not.
python_missing <- function(error, purpose, package) {
  python <- tryCatch(reticulate::py_config()$python, error = function(error) NULL)
  ring_stop("UNSUPPORTED", call = NULL, paste0(
    purpose, ", and ",
    if (is.null(python)) "reticulate finds no Python there" else paste(python, "cannot import it"),
    " (", sub("\\s+$", "", conditionMessage(error)), "): install ", package, " in a Python, and ",
    "pass its path to reticulate, as in Sys.setenv(RETICULATE_PYTHON = \"/usr/bin/python3\")"
  ))
}
