# SPDX-License-Identifier: Apache-2.0
#
# Measures the collectives of one library from R, in the way driver.c describes:
#   driver.R LIBRARY FOLDER LINK SECONDS COLLECTIVE,... BYTES,...
# R's numbers are float64, and so is what travels. Rmpi has no alltoall of vectors.

batch <- 2^17
most_calls <- 256
least_samples <- 3
most_samples <- 1000
wrong_link <- 3

open_sparkring <- function(link) {
  library(sparkring)
  comm <- ring_init()
  tier <- ring_comm_explain(comm, "barrier", 0)$tier
  if ((tier == "shm") != (link == "shm")) quit(status = wrong_link)
  list(
    rank = ring_rank(comm), size = ring_size(comm),
    barrier = function() ring_barrier(comm),
    close = function() ring_close(comm),
    allreduce = function(x, total) ring_allreduce(comm, x),
    broadcast = function(x, total) ring_broadcast(comm, x),
    allgather = function(x, total) ring_allgather(comm, x),
    alltoall = function(x, total) ring_alltoall(comm, x)
  )
}

# 2 is Rmpi's number of double, 0 the communicator of all.
open_rmpi <- function(link) {
  library(Rmpi, quietly = TRUE)
  # nolint start: object_usage_linter. Where Rmpi is not installed, lintr cannot know what it has.
  list(
    rank = mpi.comm.rank(0), size = mpi.comm.size(0),
    barrier = function() mpi.barrier(0),
    close = function() mpi.finalize(),
    allreduce = function(x, total) mpi.allreduce(x, 2, "sum", 0),
    broadcast = function(x, total) mpi.bcast(x, 2, 0, 0),
    allgather = function(x, total) mpi.allgather(x, 2, double(total), 0)
  )
  # nolint end
}

now <- function() as.numeric(Sys.time())

make_test <- function(library, name, bytes) {
  elements <- max(1, bytes %/% 8)
  splits <- name %in% c("allgather", "alltoall")
  count <- if (splits) ceiling(elements / library$size) else elements
  total <- if (splits) count * library$size else elements
  list(
    name = name, run = library[[name]], count = count, total = total,
    given = if (name == "allgather") count else total,
    calls = min(max(batch %/% bytes, 1), most_calls)
  )
}

# Seconds of one call, and what the last one returned.
sample_once <- function(library, test) {
  inputs <- lapply(seq_len(test$calls), function(call) rep(library$rank + 1, test$given))
  library$barrier()
  start <- now()
  for (input in inputs) result <- test$run(input, test$total)
  list(seconds = (now() - start) / test$calls, result = result)
}

check <- function(library, test, result) {
  ranks <- seq_len(library$size)
  expected <- switch(test$name,
    allreduce = sum(ranks),
    broadcast = 1,
    allgather = ,
    alltoall = rep(ranks, each = test$count)
  )
  if (length(result) != test$total || any(result != expected)) stop("wrong result: ", test$name)
}

# Warms up, and agrees on how many samples there will be.
count_samples <- function(library, test, seconds) {
  check(library, test, sample_once(library, test)$result)
  start <- now()
  sample_once(library, test)
  fitting <- max(least_samples, min(most_samples, floor(seconds / (now() - start))))
  library$broadcast(fitting, 1)
}

measure <- function(library, test, seconds, report) {
  samples <- seq_len(count_samples(library, test, seconds))
  times <- vapply(samples, function(i) sample_once(library, test)$seconds, 0)
  listed <- paste(sprintf("%.3f", 1e6 * times), collapse = " ")
  cat(test$name, "-", sprintf("%.0f", 8 * test$total), "float64", listed, "\n", file = report)
}

main <- function(name, folder, link, seconds, collectives, sizes) {
  library <- switch(name,
    "sparkring-r" = open_sparkring(link),
    rmpi = open_rmpi(link)
  )
  report <- file(file.path(folder, library$rank), "w")
  for (collective in intersect(strsplit(collectives, ",")[[1]], names(library))) {
    for (bytes in as.numeric(strsplit(sizes, ",")[[1]])) {
      measure(library, make_test(library, collective, bytes), as.numeric(seconds), report)
    }
  }
  close(report)
  library$close()
}

do.call(main, as.list(commandArgs(TRUE)))
