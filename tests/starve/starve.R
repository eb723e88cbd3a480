# SPDX-License-Identifier: Apache-2.0
#
# Memory runs out in the R package: for every k, the k-th allocation of a call fails, in our library
# or in R on its behalf (starve.c, which is preloaded and the argument). That must be a condition of
# R or do no harm; what was taken by then (memory, handles, descriptors) is given back, and calls go
# on, in a new communicator where the old one is broken. Python's is tests/python/test_memory.py.

library(sparkring)
dyn.load(commandArgs(TRUE)[[1L]])
ours <- asNamespace("sparkring")
maps <- grep("/sparkring[.]so$", readLines("/proc/self/maps"), value = TRUE)
ranges <- do.call(rbind, strsplit(sub(" .*", "", maps), "-", fixed = TRUE))
invisible(.C("starve_begin", ranges[1L, 1L], ranges[nrow(ranges), 2L]))

sweeps <- 8L # at most, until what is held grows no more: what is kept for later calls is made once
x <- as.double(1:5000) # 40 kB, which R asks the system for

calls <- list(
  allreduce = function(comm) ring_allreduce(comm, x),
  group = function(comm) ring_allreduce_group(comm, list(x, x)),
  reduce = function(comm) ring_reduce(comm, x),
  reduce_scatter = function(comm) ring_reduce_scatter(comm, x),
  broadcast = function(comm) ring_broadcast(comm, x),
  allgather = function(comm) ring_allgather(comm, x),
  allgatherv = function(comm) ring_allgatherv(comm, x),
  gatherv = function(comm) ring_gatherv(comm, x),
  scatterv = function(comm) ring_scatterv(comm, x, counts = 5000),
  alltoall = function(comm) ring_alltoall(comm, x),
  alltoallv = function(comm) ring_alltoallv(comm, x, counts = 5000),
  object = function(comm) ring_broadcast_object(comm, list(x)),
  start = function(comm) ring_wait(ring_allreduce_start(comm, x)),
  dropped = function(comm) ring_allreduce_start(comm, x),
  alloc = function(comm) ring_alloc(comm, 5000),
  split = function(comm) ring_close(ring_comm_split(comm, 0)),
  explain = function(comm) ring_comm_explain(comm, "allreduce", 5000),
  init = function(comm) {
    ring_close(comm)
    ring_close(ring_init())
  }
)

is_open <- function(comm) identical(.Call(ours$C_comm_state, comm), "open")

# Calls with the k-th allocation failing, for every k; how often one did.
starve <- function(name, call, width) {
  comm <- NULL
  number <- failures <- 0L
  repeat {
    if (is.null(comm) || !is_open(comm)) comm <- ring_init()
    .C("starve_arm", number, width)
    value <- tryCatch(call(comm), error = identity)
    hit <- .C("starve_disarm", hit = 0L)$hit
    if (hit == 0L) break
    failed <- inherits(value, "error")
    if (failed && !grepl("memory|allocate|start a thread", conditionMessage(value))) {
      stop(name, ", allocation ", number, ": ", conditionMessage(value))
    }
    failures <- failures + failed
    number <- number + 1L
  }
  if (inherits(value, "error")) stop(name, " failed with all its memory: ", conditionMessage(value))
  ring_close(comm)
  failures
}

# What there is when all that nobody needs is gone.
held <- function() {
  for (i in 1:2) gc()
  c(
    memory = .C("starve_held", count = 0L)$count, communicators = .Call(ours$C_comm_live),
    requests = .Call(ours$C_request_live), descriptors = length(list.files("/proc/self/fd"))
  )
}

check <- function(name, call) {
  before <- held()
  for (sweep in seq_len(sweeps)) {
    failures <- starve(name, call, 1L) + starve(name, call, 2L)
    after <- held()
    if (all(after <= before)) break
    grown <- after - before
    before <- after
  }
  if (failures == 0L) stop(name, ": no allocation has failed")
  if (any(after > before) || sweep == sweeps) {
    stop(name, " leaves ", toString(paste(grown, names(grown))), " behind, each time")
  }
  cat(sprintf("%-15s %4d failures, %d sweeps\n", name, failures, sweep))
}

for (name in names(calls)) check(name, calls[[name]])
