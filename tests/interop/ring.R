# SPDX-License-Identifier: Apache-2.0
#
# The R ranks of the ring. ring.py prints the same lines; test_interop.py compares them.

library(sparkring)

# md5 of the bytes, as another language would see them.
digest <- function(x) {
  file <- tempfile()
  on.exit(unlink(file))
  writeBin(as.vector(if (is.logical(x)) as.integer(x) else x), file)
  unname(tools::md5sum(file))
}

emit <- function(...) cat(paste(...), "\n", sep = "")

comm <- ring_init(timeout = 60, call_timeout = 60)
rank <- ring_rank(comm)
size <- ring_size(comm)

whole <- ((0:29) * 7 + rank * 3) %% 5 - 2
inputs <- list(
  float64 = whole / 3,
  int32 = as.integer(whole),
  uint8 = as.raw(abs(whole)),
  logical = whole > 0,
  empty = double(),
  large = sin((1:100003) * (rank + 1))
)
numeric_ops <- c("sum", "prod", "min", "max")
logical_ops <- c("land", "lor")
ops <- list(
  float64 = c(numeric_ops, "avg"),
  int32 = c(numeric_ops, logical_ops),
  uint8 = c(numeric_ops, logical_ops),
  logical = c(numeric_ops, logical_ops),
  empty = "sum",
  large = c("sum", "avg")
)

for (name in names(inputs)) {
  x <- inputs[[name]]
  for (op in ops[[name]]) {
    # A sum of integers is worked out in int64; products match those of Python as doubles only.
    doubles <- op == "prod" && !is.raw(x)
    emit(name, op, digest(ring_allreduce(comm, if (doubles) as.double(x) else x, op = op)))
  }
  for (root in seq_len(size) - 1) {
    emit(name, "broadcast", root, digest(ring_broadcast(comm, x, root)))
  }
  emit(name, "allgather", digest(ring_allgather(comm, x)))
  ring_barrier(comm)
}
emit("hosts", paste(ring_hosts(comm), collapse = " "))
emit(if (grepl("encrypted", format(comm))) "encrypted" else "plain")
ring_close(comm)
