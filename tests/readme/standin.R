# SPDX-License-Identifier: Apache-2.0
#
# Stands in for sparklyr where it is not installed: functions with its names that run a closure in
# one R process a partition, with the barrier argument as sparklyr makes it. ring_apply() is here,
# too, as it needs sparklyr.

spark_connect <- function(master) master

partition <- function(x, repartition) unname(split(x, seq_len(nrow(x)) %% repartition))

sdf_len <- function(sc, length, repartition) {
  partition(data.frame(id = seq_len(length)), repartition)
}

sdf_copy_to <- function(sc, x, repartition) partition(x, repartition)

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

ring_apply <- function(.x, .f) {
  play <- function(df, barrier) {
    comm <- sparkring::ring_init(barrier)
    on.exit(sparkring::ring_close(comm))
    cbind(rank = sparkring::ring_rank(comm), .f(df, comm))
  }
  spark_apply(.x, play, barrier = TRUE)
}
