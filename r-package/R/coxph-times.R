# SPDX-License-Identifier: Apache-2.0
#
# Times that differ by rounding alone, such as 0.3 and 0.1 + 0.2, are made equal, as by aeqSurv() of
# survival: each time of a chain becomes the first time of its chain. A chain has gaps of at most a
# tolerance between neighbors. It may reach over the times of many ranks.

# The rows with such times.
times_fix <- function(comm, own) {
  times <- c(own$start, own$stop)
  values <- sort(unique(times[is.finite(times)]))
  # Neighbors of whole numbers are too far from each other.
  apart <- all(values == trunc(values)) && max(0, abs(values)) < 2^25
  if (ring_allreduce(comm, as.double(!apart)) == 0) return(own)
  received <- ring_alltoallv(comm, values, records_divide(comm, values), return_counts = TRUE)
  known <- sort(unique(received$x))
  firsts <- ring_alltoallv(comm, times_chains(comm, known)[match(received$x, known)],
                           received$counts)
  agree(comm, times_replace(own, function(times) {
    finite <- is.finite(times)
    replace(times, finite, firsts[match(times[finite], values)])
  }))
}

times_replace <- function(own, fix) {
  stop <- fix(own$stop)
  if (!is.null(own$start)) {
    start <- fix(own$start)
    if (any(start == stop & own$start != own$stop)) {
      stop("an interval has no length: its start and stop differ by rounding alone; leave the row ",
           "out, or pass control = list(timefix = FALSE)", call. = FALSE)
    }
    own$start <- start
  }
  own$stop <- stop
  own
}

# The first time of the chain of each of the sorted times of this rank. Ranks have intervals of the
# times in their order.
times_chains <- function(comm, times) {
  sums <- ring_allreduce(comm, c(length(times), .Call(C_times_sum, times)))
  mean <- sums[[2L]] / sums[[1L]]
  first <- .Call(C_times_chains, times, mean)
  count <- length(times)
  edge <- if (count == 0L) double(4L) else c(1, times[c(1L, count)], first[[count]])
  edges <- matrix(ring_allgather(comm, matrix(edge, ncol = 1L)), 4L)
  before <- .Call(C_times_before, edges[, seq_len(ring_rank(comm) + 1L), drop = FALSE], mean)
  replace(first, first == times[seq_len(min(1L, count))], before)
}
