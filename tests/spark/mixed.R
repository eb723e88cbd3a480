# SPDX-License-Identifier: Apache-2.0
# An R rank in a ring whose first two ranks are Python's: worker.R with the address of rank 0.

library(sparkring)

task <- eval(parse(file("stdin")))
rank <- task$barrier$partition + 2
comm <- ring_init(rank = rank, size = 4, root_address = "127.0.0.1", token = task$token)
numbers <- function(x) sprintf("[%s]", paste(x, collapse = ", "))
cat(sprintf(
  '{"rank": %d, "sum": %s, "root": %s, "all": %s}\n',
  ring_rank(comm),
  numbers(ring_allreduce(comm, 0:4 + as.double(rank))),
  numbers(ring_broadcast(comm, rep(rank, 3), root = 1)),
  numbers(ring_allgather(comm, c(rank, 10 * rank)))
))
ring_close(comm)
