# SPDX-License-Identifier: Apache-2.0
#
# Stands in for sparklyr where it is not installed: four functions with its names that run a closure
# in one R process a partition, with the barrier argument as sparklyr makes it.

spark_connect <- function(master) master

sdf_len <- function(sc, length, repartition) {
  id <- seq_len(length)
  unname(split(data.frame(id = id), id %% repartition))
}

sdf_collect <- identity

spark_apply <- function(x, f, columns, barrier, packages) {
  stopifnot(barrier)
  address <- rep(list(sprintf("127.0.0.1:%d", Sys.getpid())), length(x))
  start <- function(partition) {
    parallel::mcparallel(f(x[[partition + 1L]], list(address = address, partition = partition)))
  }
  processes <- lapply(seq_along(x) - 1L, start)
  results <- parallel::mccollect(processes)
  errors <- Filter(function(result) inherits(result, "try-error"), results)
  if (length(errors) > 0) stop(errors[[1]])
  stopifnot(length(unique(names(results))) == length(x)) # as many processes as partitions
  do.call(rbind, unname(results))
}
