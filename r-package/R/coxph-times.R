# SPDX-License-Identifier: Apache-2.0
#
# Times that differ by rounding alone, such as 0.3 and 0.1 + 0.2, are made equal, as by aeqSurv() of
# survival: each time of a chain becomes the first time of its chain. A chain has gaps of at most a
# tolerance between neighbors. It may reach over the times of many ranks.

times_tolerance <- sqrt(.Machine$double.eps)

# The rows with such times.
times_fix <- function(comm, own) {
  times <- c(own$start, own$stop)
  values <- unique(times[is.finite(times)])
  # Neighbors of whole numbers are too far from each other.
  apart <- all(values == trunc(values)) && max(0, abs(values)) < 0.5 / times_tolerance
  if (ring_allreduce(comm, as.double(!apart)) == 0) return(own)
  part <- records_part(comm, values)
  order <- order(part)
  received <- ring_alltoallv(comm, values[order], tabulate(part, ring_size(comm)),
                             return_counts = TRUE)
  known <- sort(unique(received$x))
  firsts <- values
  firsts[order] <- ring_alltoallv(comm, times_chains(comm, known)[match(received$x, known)],
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
  sums <- ring_allreduce(comm, c(sum(abs(times)), length(times)))
  close <- function(gap) gap <= times_tolerance | gap / (sums[[1L]] / sums[[2L]]) <= times_tolerance
  count <- length(times)
  begins <- c(TRUE, !close(diff(times)))[seq_len(count)]
  first <- times[begins][cumsum(begins)]
  edges <- if (count == 0L) rep(NA, 3L) else c(times[[1L]], times[[count]], first[[count]])
  edges <- matrix(ring_allgather(comm, matrix(as.double(edges), ncol = 1L)), 3L)
  last <- chain <- -Inf # the last time before this rank, and the first time of its chain
  for (rank in which(!is.na(edges[1L, ]))) {
    if (!close(edges[1L, rank] - last)) chain <- edges[1L, rank]
    if (rank == ring_rank(comm) + 1L) first[first == first[[1L]]] <- chain
    if (edges[3L, rank] != edges[1L, rank]) chain <- edges[3L, rank]
    last <- edges[2L, rank]
  }
  first
}
