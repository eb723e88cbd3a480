# SPDX-License-Identifier: Apache-2.0
#
# Common parts of the functions for frameworks: a communicator, and a row of numbers of every rank.
# Ranks exchange numbers and strings only. They need no token, and R and Python read the same bytes.
# Python's frameworks/_exchange.py does the same.

# State that outlives a call: `comm`, the closed communicator that holds ports; `tracker`, XGBoost's
# tracker; `gpus`, the GPUs that this process has chosen.
frameworks_kept <- new.env(parent = emptyenv())

# Calls `code` with the communicator. A barrier argument is replaced by a communicator that is open
# during the call. The closed communicator is kept, because it holds the ports.
with_frameworks_comm <- function(comm, ..., code) {
  call <- sys.call(-1)
  given <- inherits(comm, "ring_comm")
  if (given && ...length() > 0L) {
    ring_stop("INVALID", paste(
      "`...` has arguments of ring_init(), but `comm` is an open communicator: leave them out"
    ), call = call)
  }
  if (!given) {
    if (!is_barrier(comm)) {
      ring_stop("INVALID", paste(
        "`comm` must be a communicator, as ring_init() returns it, or the `barrier` of",
        "spark_apply(barrier = TRUE): a list with `address` and `partition`"
      ), call = call)
    }
    comm <- ring_init(comm, ...)
    on.exit(ring_abort(comm, "its framework could not be configured"))
  }
  result <- tryCatch(code(comm), ring_error = function(error) {
    ring_stop(error$status, conditionMessage(error), error$rank, error$errno, call = call)
  })
  if (!given) {
    ring_close(comm)
    frameworks_kept$comm <- comm
  }
  result
}

# Gathers the rows of all ranks, `width` numbers each, as the columns of a matrix. row() makes the
# row of this rank. An error of row() on any rank is an error on all ranks.
frameworks_gather <- function(comm, width, row) {
  matrix(ring_allgather(comm, as.double(agree(comm, row()))), nrow = width)
}

# Reserves a port on rank 0, and returns the port on all ranks.
frameworks_root_port <- function(comm) {
  rows <- frameworks_gather(comm, 1L, function() {
    if (ring_rank(comm) == 0L) ring_port_reserve(comm) else 0L
  })
  as.integer(rows[[1L]])
}

frameworks_address <- function(host, port) {
  sprintf(if (grepl(":", host, fixed = TRUE)) "[%s]:%d" else "%s:%d", host, as.integer(port))
}

# Sets environment variables in R, and in the Python of reticulate, which copied the environment
# when it started.
frameworks_set <- function(variables) {
  do.call(Sys.setenv, variables)
  if (isNamespaceLoaded("reticulate") && reticulate::py_available()) {
    environ <- reticulate::import("os", convert = FALSE)$environ
    for (name in names(variables)) environ$`__setitem__`(name, variables[[name]])
  }
  variables
}
