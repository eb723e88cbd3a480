# SPDX-License-Identifier: Apache-2.0
#
# The R ranks of a ring in which the ranks get different things. parts.py does the same;
# test_interop.py works out the expected lines of every rank.

library(sparkring)

# md5 of the bytes, as another language would see them; "none" for a rank that gets nothing.
digest <- function(x) {
  if (is.null(x)) return("none")
  file <- tempfile()
  on.exit(unlink(file))
  writeBin(as.vector(if (is.logical(x)) as.integer(x) else x), file)
  unname(tools::md5sum(file))
}

emit <- function(...) cat(paste(...), "\n", sep = "")

comm <- ring_init(timeout = 60, call_timeout = 60)
rank <- ring_rank(comm)
size <- ring_size(comm)

# What a rank brings: `count` rows of three, which in R are columns.
rows <- function(of, count) matrix((seq_len(3 * count) * 7 + of * 3 - 7) %% 5 - 2, 3)
types <- list(
  float64 = function(x) x / 4,
  int32 = function(x) array(as.integer(x), dim(x)),
  uint8 = function(x) array(as.raw(abs(x)), dim(x)),
  logical = function(x) x > 0
)

after <- (rank + 1) %% size
before <- (rank - 1) %% size
messages <- ring_messages(comm)
for (name in names(types)) {
  of <- function(rank, count) types[[name]](rows(rank, count))
  even <- of(rank, 2 * size)
  emit(name, "reduce_scatter", digest(ring_reduce_scatter(comm, even, "max")))
  emit(name, "alltoall", digest(ring_alltoall(comm, even)))
  emit(name, "allgatherv", digest(ring_allgatherv(comm, of(rank, rank))))
  sends <- (rank + seq_len(size) - 1) %% 3
  emit(name, "alltoallv", digest(ring_alltoallv(comm, of(rank, sum(sends)), sends)))
  for (root in seq_len(size) - 1) {
    emit(name, "reduce", root, digest(ring_reduce(comm, even, "max", root)))
    emit(name, "gather", root, digest(ring_gather(comm, even, root)))
    emit(name, "scatter", root, digest(ring_scatter(comm, even, root)))
    emit(name, "gatherv", root, digest(ring_gatherv(comm, of(rank, rank), root)))
    counts <- seq_len(size) - 1
    given <- of(rank, if (rank == root) sum(counts) else 0)
    emit(name, "scatterv", root, digest(ring_scatterv(comm, given, counts, root)))
  }
  ring_send(comm, even, after)
  emit(name, "recv", digest(ring_recv(comm, even, before)))
  got <- ring_message_sendrecv(messages, even, after, send_tag = 7, source = before, tag = 7)
  emit(name, "message", digest(got))
}
ring_messages_close(messages)
ring_close(comm)
