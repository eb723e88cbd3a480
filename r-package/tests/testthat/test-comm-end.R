# SPDX-License-Identifier: Apache-2.0
#
# How R processes end: without ring_close(), forked, orphaned. None hangs, and the other ranks get
# an error.

skip_on_cran() # kills processes

# What rank 1 does while rank 0 waits with it for rank 2.
ends <- list(
  end_of_script = quote(NULL),
  quit = quote(q("no", status = 3)),
  error = quote(stop("at top level")),
  killed = quote(tools::pskill(Sys.getpid(), tools::SIGKILL)),
  terminated = quote(tools::pskill(Sys.getpid(), tools::SIGTERM)),
  request = quote(request <- ring_allreduce_start(comm, 1)),
  request_dropped = quote({
    ring_allreduce_start(comm, 1)
    gc()
  }),
  time_limit = quote({
    setTimeLimit(elapsed = 0.3)
    ring_allreduce(comm, 1)
  }),
  quit_in_a_finaliser = quote({
    request <- ring_allreduce_start(comm, 1)
    reg.finalizer(globalenv(), function(e) ring_abort(comm, "late"), onexit = TRUE)
    q("no")
  })
)

# The script of a rank that ends so.
script_of <- function(way, options, began) {
  deparse(bquote({
    .libPaths(.(.libPaths()))
    library(sparkring)
    comm <- do.call(ring_init, .(options))
    ring_barrier(comm)
    saveRDS(as.numeric(Sys.time()), .(began))
    .(way)
  }))
}

# Ranks 0 and 2 stay; rank 1 is another process each time, which the one that was started as rank 1
# waits for.
test_that("the end of a process that has not closed is reported on the other ranks, in any call", {
  folder <- tempfile("ends")
  dir.create(folder)
  secret <- list(token = fresh_token(), timeout = 30)
  results <- run_ranks(3, {
    setTimeLimit(elapsed = 120)
    sapply(names(ends), simplify = FALSE, function(name) {
      file_of <- function(what) file.path(folder, paste0(name, ".", what))
      if (rank == 1) {
        began <- file_of("began")
        options <- c(list(rank = 1, addresses = rep("127.0.0.1", 3)), secret)
        writeLines(script_of(ends[[name]], options, began), file_of("R"))
        rscript <- file.path(R.home("bin"), "Rscript")
        system2(rscript, file_of("R"), stdout = FALSE, stderr = FALSE, timeout = 60)
        return(readRDS(began))
      }
      comm <- open()
      error <- tryCatch(
        {
          ring_barrier(comm) # the end of rank 1 may be reported here already
          if (rank == 2) wait_for_file(file_of("gate"))
          repeat ring_allreduce(comm, 1)
        },
        error = identity
      )
      at <- as.numeric(Sys.time())
      if (rank == 0) file.create(file_of("gate"))
      ring_abort(comm)
      list(error = error, at = at)
    })
  }, ends = ends, folder = folder, script_of = script_of, wait_for_file = wait_for_file,
  secret = secret, options = secret)
  unlink(folder, recursive = TRUE)
  for (name in names(ends)) {
    first <- results[[1]][[name]]
    expect_true(inherits(first$error, c("ring_error_aborted", "ring_error_peer_lost")), info = name)
    expect_identical(first$error$rank, 1L, info = name)
    # A second, and what a starved machine needs to end R.
    expect_lt(first$at - results[[2]][[name]], 4, label = name)
    expect_s3_class(results[[3]][[name]]$error, "ring_error")
  }
  for (name in c("end_of_script", "quit", "error")) {
    expect_match(conditionMessage(results[[1]][[name]]$error),
                 "aborted the communicator: its R process ended without closing it", info = name)
  }
})

test_that("forked children can do nothing with what they inherit, and harm nothing", {
  skip_if(nzchar(Sys.getenv("ASAN_OPTIONS")), "the address sanitizer may hang in a forked child")
  results <- run_ranks(2, {
    comm <- open()
    large <- ring_allreduce(comm, rep(1, 1e5))
    calls <- list(
      function() ring_allreduce(comm, 1), function() ring_allreduce_start(comm, 1),
      function() ring_broadcast(comm, 1), function() ring_allgatherv(comm, 1),
      function() ring_gather(comm, 1), function() ring_scatter(comm, 1:2),
      function() ring_alltoall(comm, 1:2), function() ring_send(comm, 1, 1 - rank),
      function() ring_recv(comm, 1, 1 - rank), function() ring_barrier(comm),
      function() ring_allgather_object(comm, 1), function() ring_comm_split(comm, 0),
      function() ring_close(comm), function() ring_wait(request), function() ring_test(request)
    )
    texts <- lapply(1:3, function(round) {
      request <<- if (rank == 0) ring_allreduce_start(comm, 1) # under way at the fork
      texts <- if (rank == 0) {
        parallel::mclapply(1:2, mc.cores = 2, function(i) {
          texts <- vapply(calls, FUN.VALUE = "", function(call) {
            tryCatch(as.character(call()), ring_error_invalid = conditionMessage)
          })
          if (round == 2) ring_abort(comm, "in a child")
          if (round == 3) {
            rm(comm, request, envir = globalenv())
            gc()
          }
          c(texts, sum(large))
        })
      } else {
        request <<- ring_allreduce_start(comm, 1)
        NULL
      }
      stopifnot(ring_wait(request) == 2, ring_allreduce(comm, 1) == 2, large == 2)
      texts
    })
    ring_close(comm)
    texts
  })
  for (texts in unlist(results[[1]], recursive = FALSE)) {
    expect_length(texts, 16)
    expect_match(texts[1:15], "forked")
    expect_identical(texts[[16]], "2e+05")
  }
})

test_that("a rank that is killed is missed at once, although a child of it lives", {
  child <- tempfile("child")
  results <- run_ranks(2, {
    comm <- open(call_timeout = 20, shared_memory = FALSE)
    if (rank == 1) writeLines(as.character(parallel::mcparallel(Sys.sleep(50))$pid), child)
    ring_barrier(comm)
    if (rank == 1) tools::pskill(Sys.getpid(), tools::SIGKILL)
    seconds <- system.time(error <- tryCatch(ring_barrier(comm), ring_error = identity))
    list(error = error, seconds = seconds[["elapsed"]])
  }, lost = 1, child = child)
  pid <- readLines(child)
  expect_true(is_running(pid))
  tools::pskill(as.integer(pid), tools::SIGKILL)
  expect_s3_class(results[[1]]$error, "ring_error_peer_lost")
  expect_identical(results[[1]]$error$rank, 1L)
  expect_lt(results[[1]]$seconds, 15)
  unlink(child)
})

test_that("a worker of Spark ends without its parent", {
  folder <- tempfile("orphan")
  dir.create(folder)
  waits <- file.path(folder, "waits")
  report <- file.path(folder, "report")
  results <- run_ranks(2, {
    barrier <- list(address = rep("127.0.0.1", 2), partition = rank)
    if (rank == 1) {
      code <- bquote({
        .libPaths(.(.libPaths()))
        comm <- sparkring::ring_init(.(barrier), token = .(token), timeout = 30)
        writeLines("", .(waits))
        tryCatch(sparkring::ring_barrier(comm), error = function(error) {
          writeLines(c(class(error)[[1]], conditionMessage(error)), .(report))
          stop(error)
        })
      })
      script <- file.path(folder, "worker.R")
      writeLines(deparse(code), script)
      rscript <- file.path(R.home("bin"), "Rscript")
      parent <- file.path(folder, "parent.sh")
      log <- file.path(folder, "log")
      writeLines(sprintf("'%s' '%s' >'%s' 2>&1 &\nwait", rscript, script, log), parent)
      system(sprintf("sh '%s' & echo $! >'%s'", parent, file.path(folder, "parent")))
      wait_for_file(waits)
      Sys.sleep(0.2)
      tools::pskill(as.integer(readLines(file.path(folder, "parent"))), tools::SIGKILL)
      wait_for_file(report)
      return(NULL)
    }
    comm <- ring_init(barrier, token = token, timeout = 30)
    wait_for_file(report)
    tryCatch(ring_barrier(comm), ring_error = identity)
  }, token = fresh_token(), folder = folder, waits = waits, report = report,
  wait_for_file = wait_for_file)
  expect_identical(readLines(report)[[1]], "ring_error_aborted")
  expect_match(readLines(report)[[2]], "rank 1 was orphaned during barrier\\(\\).*has ended")
  expect_s3_class(results[[1]], "ring_error")
  expect_identical(results[[1]]$rank, 1L)
  expect_match(conditionMessage(results[[1]]), "rank 1 was orphaned")
  unlink(folder, recursive = TRUE)
})
