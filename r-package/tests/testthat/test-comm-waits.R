# SPDX-License-Identifier: Apache-2.0
#
# Every call that can wait: Ctrl-C ends it, and the error on the other ranks names the rank.

skip_on_cran() # interrupts processes, and waits

# Three ranks: rank 0 is interrupted while it waits for rank 1, which comes too late; rank 2 waits
# in the same call.
calls <- list(
  allreduce = function(comm) ring_allreduce(comm, 1:6),
  allreduce_of_much = function(comm) ring_allreduce(comm, double(2e6)),
  allreduce_group = function(comm) ring_allreduce_group(comm, list(1, double(1e5))),
  reduce = function(comm) ring_reduce(comm, 1:6),
  reduce_scatter = function(comm) ring_reduce_scatter(comm, 1:6),
  broadcast = function(comm) ring_broadcast(comm, 1:6, root = 1),
  allgather = function(comm) ring_allgather(comm, 1:6),
  allgatherv = function(comm) ring_allgatherv(comm, 1:6),
  gather = function(comm) ring_gather(comm, 1:6),
  gatherv = function(comm) ring_gatherv(comm, 1:6),
  scatter = function(comm) ring_scatter(comm, 1:6, root = 1),
  scatterv = function(comm) ring_scatterv(comm, 1:6, 1:3, root = 1),
  alltoall = function(comm) ring_alltoall(comm, 1:6),
  alltoallv = function(comm) ring_alltoallv(comm, 1:6, 1:3),
  barrier = function(comm) ring_barrier(comm),
  send = function(comm) ring_send(comm, double(2e6), 1),
  recv = function(comm) ring_recv(comm, 1, 1),
  broadcast_object = function(comm) ring_broadcast_object(comm, "x", root = 1),
  allgather_object = function(comm) ring_allgather_object(comm, "x"),
  gather_object = function(comm) ring_gather_object(comm, "x"),
  scatter_object = function(comm) ring_scatter_object(comm, list("x", "y", "z"), root = 1),
  alltoall_object = function(comm) ring_alltoall_object(comm, list("x", "y", "z")),
  allreduce_object = function(comm) ring_allreduce_object(comm, "x", paste),
  send_object = function(comm) ring_send_object(comm, double(2e6), 1),
  recv_object = function(comm) ring_recv_object(comm, 1),
  split = function(comm) ring_comm_split(comm, 0),
  close = function(comm) ring_close(comm),
  wait = function(comm) ring_wait(ring_allreduce_start(comm, 1:6)),
  wait_for_the_second = function(comm) {
    requests <- list(ring_barrier_start(comm), ring_allreduce_start(comm, 1:6))
    ring_wait(requests[[2]])
  },
  call_behind_a_request = function(comm) {
    request <- ring_barrier_start(comm)
    ring_allreduce(comm, 1)
  },
  close_behind_a_request = function(comm) {
    request <- ring_barrier_start(comm)
    ring_close(comm)
  }
)
messages <- c("send", "recv", "send_object", "recv_object")

# Interrupts a process until it makes a file on an interrupt; one signal may come before the
# wait that it is for.
interrupt_until <- function(process, gate) {
  Sys.sleep(0.1)
  for (again in 1:20) {
    sent <- Sys.time()
    tools::pskill(process, tools::SIGINT)
    while (!file.exists(gate) && Sys.time() < sent + 2) Sys.sleep(0.005)
    if (file.exists(gate)) return(as.numeric(sent))
  }
  stop("rank 0 does not notice that it is interrupted")
}

# Rank 0 notices a signal in its calls only: on a starved machine it comes before them, or twice.
guard <- function(rank, code) {
  if (rank != 0) return(code)
  suspendInterrupts({
    force(code)
    tryCatch(allowInterrupts(NULL), interrupt = identity) # one that came twice
  })
  code
}

# Rank 0: the call, again where the signal came before it. The class of what was caught, and when.
be_interrupted <- function(comm, call, gate) {
  repeat {
    caught <- tryCatch(allowInterrupts(call(comm)), interrupt = class, error = class)
    ended <- as.numeric(Sys.time())
    if (!grepl("open$", format(comm))) break
  }
  file.create(gate)
  list(caught = caught, ended = ended)
}

# Another rank: what its calls end with.
be_failed <- function(comm, call) {
  error <- tryCatch(
    {
      call(comm)
      repeat ring_barrier(comm)
    },
    error = identity
  )
  list(caught = class(error), rank = error$rank, ended = as.numeric(Sys.time()))
}

test_that("an interrupt ends every call, and all ranks learn it", {
  before <- Sys.getenv("SPARKRING_SHARED_MEMORY", NA)
  on.exit(if (is.na(before)) Sys.unsetenv("SPARKRING_SHARED_MEMORY"))
  folder <- tempfile("gates")
  for (shared in c("1", "0")) {
    Sys.setenv(SPARKRING_SHARED_MEMORY = shared)
    dir.create(folder)
    results <- run_ranks(3, {
      setTimeLimit(elapsed = 120)
      guard(rank, sapply(names(calls), simplify = FALSE, function(name) {
        gate <- file.path(folder, name)
        comm <- open()
        process <- ring_broadcast(comm, Sys.getpid())
        call <- calls[[name]]
        if (rank == 1 && name %in% messages) call <- ring_barrier
        result <- if (rank == 0) {
          be_interrupted(comm, call, gate)
        } else {
          sent <- if (rank == 1) interrupt_until(process, gate)
          c(be_failed(comm, call), sent = sent)
        }
        try(ring_abort(comm), silent = TRUE)
        result
      }))
    },
    calls = calls, messages = messages, folder = folder, interrupt_until = interrupt_until,
    guard = guard, be_interrupted = be_interrupted, be_failed = be_failed)
    unlink(folder, recursive = TRUE)
    for (name in names(calls)) {
      first <- results[[1]][[name]]
      late <- results[[2]][[name]]
      other <- results[[3]][[name]]
      expect_identical(first$caught, c("interrupt", "condition"), info = name)
      expect_identical(other$caught[[1]], "ring_error_aborted", info = name)
      expect_identical(other$rank, 0L, info = name)
      expect_true("ring_error" %in% late$caught, info = name)
      # A second, and what a starved machine needs.
      expect_lt(max(first$ended, other$ended) - late$sent, 3, label = name)
    }
  }
})

test_that("an interrupt at top level ends a script, and the other rank gets an error", {
  folder <- tempfile("plain")
  dir.create(folder)
  gate <- file.path(folder, "gate")
  results <- run_ranks(2, {
    comm <- open()
    process <- ring_broadcast(comm, Sys.getpid())
    if (rank == 0) {
      reg.finalizer(globalenv(), function(e) file.create(gate), onexit = TRUE)
      repeat ring_recv(comm, 1, 1) # an interrupt ends Rscript
    }
    interrupt_until(process, gate)
    be_failed(comm, ring_barrier)
  }, gate = gate, interrupt_until = interrupt_until, be_failed = be_failed, lost = 0)
  unlink(folder, recursive = TRUE)
  expect_true("ring_error" %in% results[[2]]$caught)
  expect_identical(results[[2]]$rank, 0L)
})

# ---- Warnings of a call that waits long

own_token <- basename(tempfile("a token of these tests "))
impatient <- list(token = own_token, timeout = 30, warn_after = 0.3)

test_that("a call that waits warns at once, and goes on", {
  results <- run_ranks(2, {
    comm <- open()
    if (rank == 1) Sys.sleep(3)
    texts <- character()
    sum <- withCallingHandlers(ring_allreduce(comm, 1), ring_stall = function(stall) {
      texts <<- c(texts, class(stall), conditionMessage(stall))
      invokeRestart("muffleMessage")
    })
    ring_close(comm)
    list(texts = texts, sum = sum)
  }, options = impatient)
  expect_identical(results[[1]]$sum, 2)
  texts <- results[[1]]$texts
  expect_identical(texts[1:3], c("ring_stall", "message", "condition"))
  expect_match(texts[[4]], "^sparkring: rank 0 has waited .* in allreduce.* for: rank 1 .*\n$")
  expect_identical(results[[2]]$sum, 2)
})

test_that("a request warns the caller that waits for it", {
  results <- run_ranks(2, {
    comm <- open()
    if (rank == 1) Sys.sleep(3)
    texts <- character()
    keep <- function(stall) {
      texts <<- c(texts, conditionMessage(stall))
      invokeRestart("muffleMessage")
    }
    request <- ring_allreduce_start(comm, 1)
    Sys.sleep(if (rank == 0) 0.8 else 0)
    withCallingHandlers(ring_test(request), ring_stall = keep)
    tested <- length(texts)
    sum <- withCallingHandlers(ring_wait(request), ring_stall = keep)
    ring_close(comm)
    list(texts = texts, tested = tested, sum = sum)
  }, options = impatient)
  expect_identical(results[[1]]$sum, 2)
  expect_gt(results[[1]]$tested, 0)
  expect_match(results[[1]]$texts[[1]], "rank 0 .*allreduce.*rank 1")
})

test_that("a handler can end the wait, and errors of handlers are not lost", {
  leave <- list(
    function(comm) tryCatch(ring_barrier(comm), ring_stall = function(stall) "left"),
    function(comm) {
      fail <- function(stall) stop("mine")
      tryCatch(withCallingHandlers(ring_barrier(comm), ring_stall = fail), error = conditionMessage)
    }
  )
  results <- run_ranks(2, {
    lapply(leave, function(wait) {
      comm <- open()
      if (rank == 1) Sys.sleep(3)
      caught <- if (rank == 0) wait(comm) else be_failed(comm, ring_barrier)$caught
      result <- list(caught = caught, shown = format(comm))
      ring_abort(comm)
      result
    })
  }, leave = leave, be_failed = be_failed, options = impatient)
  expect_identical(lapply(results[[1]], `[[`, "caught"), list("left", "mine"))
  for (result in c(results[[1]], results[[2]])) expect_match(result$shown, "broken$")
  for (result in results[[2]]) expect_true("ring_error" %in% result$caught)
})

test_that("a handler that ends or waits for what it interrupts does not hang", {
  wait <- function(comm) ring_wait(ring_allreduce_start(comm, 1))
  in_handler <- list(
    list(call = ring_barrier, handle = function(comm) ring_abort(comm, "slow")),
    list(call = wait, handle = function(comm) ring_abort(comm, "slow")),
    list(call = wait, handle = function(comm) stop("mine"))
  )
  results <- run_ranks(2, {
    lapply(in_handler, function(case) {
      comm <- open()
      if (rank == 1) Sys.sleep(3)
      caught <- if (rank == 0) {
        tryCatch(
          withCallingHandlers(case$call(comm), ring_stall = function(stall) case$handle(comm)),
          error = conditionMessage
        )
      } else {
        be_failed(comm, case$call)$caught
      }
      result <- list(caught = caught, usable = grepl("open$", format(comm)))
      ring_abort(comm)
      result
    })
  }, in_handler = in_handler, be_failed = be_failed, options = impatient)
  texts <- vapply(results[[1]], `[[`, "", "caught")
  expect_match(texts[1:2], "aborted the communicator: slow")
  expect_identical(texts[[3]], "mine")
  for (result in c(results[[1]], results[[2]])) expect_false(result$usable)
  for (result in results[[2]]) expect_true("ring_error" %in% result$caught)
})

test_that("warn_after is checked", {
  expect_error(ring_init(warn_after = -1), "`warn_after` must be a number of seconds, or 0 for no")
  expect_error(ring_init(warn_after = "x"), "`warn_after` must be a number", class = "ring_error")
})
